import { Cross, Fact, LetterF, plane } from "../../charts/axes.tsx";
import { Drawing, type Handle } from "../../charts/drawing.tsx";
import { pixel, stop } from "../../charts/scales.ts";
import { Figure } from "../../controls/figure.tsx";
import { clean, degrees, halfTurn, number } from "../../controls/format.ts";
import { compute } from "../../engine/engine.ts";
import { snap } from "../../state/fields.ts";
import { useOperator, useWidget } from "../../state/widget.ts";
import { captions, fields } from "./state.ts";

const width = 420;
const half = 210;
const p = plane(half, 1.6);
const q = plane(half, 1.6, half);
const letters = plane(180, 1.16, 15, half - 14);
const mirrored = plane(180, 1.16, half + 15, half - 14);

const minusOne = (on: typeof p) => (
  <>
    <circle class="target" cx={pixel(on.x(-1))} cy={pixel(on.y(0))} r="10" />
    <circle class="target" cx={pixel(on.x(-1))} cy={pixel(on.y(0))} r="5" />
    <text class="axis-note" x={pixel(on.x(-1) - 6)} y={pixel(on.y(0) - 15)} text-anchor="end">
      −1
    </text>
  </>
);

export function Missing() {
  const widget = useWidget("missing", fields);
  const s = widget.state;
  const inputs = { bm: s.bm, beta: s.beta, k: s.k, wanted: 0 };
  const { value: m, refusal } = useOperator("missing", inputs);
  const turnTo = (radians: number) => {
    const wanted = Math.min(3.1408, Math.max(0, radians));
    const bm = compute("operators", "missing", { ...inputs, wanted }).bm_for_wanted;
    if (Number.isFinite(bm)) widget.set({ bm: snap(fields.bm, bm, 0) });
  };
  const moving = 1 - s.beta; // the drawn eigenvalue; its value is the C++'s, see `low`
  const low = m.h_eigenvalues[0]!;
  const high = m.h_eigenvalues[1]!;
  const slid = Math.abs(low - moving) < Math.abs(high - moving) ? low : high;

  const pair: Handle = {
    id: "pair",
    at: [p.x(m.re), p.y(m.im)],
    colour: "c-rotation",
    drag: (px, py) =>
      turnTo(
        stop(compute("operators", "polar", { x: p.x.back(px), y: p.y.back(py) }).radians, m.theta),
      ),
    inputs: [
      {
        label: "angle of Cayley’s eigenvalue",
        value: m.theta,
        from: 0,
        to: 3.1408,
        step: 0.0314,
        text: degrees(m.theta),
        set: turnTo,
      },
    ],
  };
  const slide: Handle = {
    id: "slide",
    at: [q.x(slid), q.y(0)],
    colour: "c-reflection",
    drag: (px) => widget.set({ beta: snap(fields.beta, 1 - q.x.back(px)) }),
    inputs: [
      {
        label: "Householder’s moving eigenvalue",
        value: slid,
        from: -1.5,
        to: 1,
        step: 0.025,
        text: number(slid),
        set: (value) => widget.set({ beta: snap(fields.beta, 1 - value) }),
      },
    ],
  };
  const singular = Math.abs(m.h_det) < 5e-3;
  const reached = Math.abs(slid + 1) < 5e-3;
  const gap = m.gap < 1e-3 ? `${number((m.gap * 180) / Math.PI, 2)}°` : degrees(m.gap);
  const sentence = `Cayley at ${halfTurn(m.theta, m.gap)}, ${gap} short of −1, cosine with −x ${clean(m.cosine)}; Householder’s eigenvalue at ${clean(slid)}${singular ? ": singular" : reached ? ": a reflection" : ""}.`;
  const arc = (sign: 1 | -1) =>
    `M${pixel(p.x(1))} ${pixel(p.y(0))}A${pixel(p.unit)} ${pixel(p.unit)} 0 0 ${sign > 0 ? 0 : 1} ${pixel(p.x(m.re))} ${pixel(p.y(sign * m.im))}`;
  return (
    <Figure
      widget={widget}
      caption={singular ? captions.singular : reached ? captions.reached : captions.sliding}
      sentence={sentence}
      refusal={refusal}
      table={() => ({
        caption: "Eigenvalues in the plane",
        head: ["", "Cayley Q", "Householder I − βkkᵀ"],
        rows: [
          ["first eigenvalue", `${number(m.re)} + ${number(m.im)}i`, number(high)],
          ["second eigenvalue", `${number(m.re)} − ${number(m.im)}i`, number(low)],
          ["distance to −1", number(m.distance), number(Math.abs(slid + 1))],
          ["determinant", "1", number(m.h_det)],
          ["cosine with −x", number(m.cosine), "–"],
          ["smallest singular value", "1", number(m.h_sigma_min)],
        ],
      })}
      main={
        <Drawing width={width} height={half + 150} label={sentence} handles={[pair, slide]}>
          <text class="name c-rotation" x="2" y="12">
            Cayley
          </text>
          <text class="name c-reflection" x={half + 4} y="12">
            Householder
          </text>
          <circle class="disc" cx={pixel(p.x(0))} cy={pixel(p.y(0))} r={pixel(p.unit)} />
          <circle class="disc" cx={pixel(q.x(0))} cy={pixel(q.y(0))} r={pixel(q.unit)} />
          <Cross plane={p} />
          <Cross plane={q} />
          <path class="line c-rotation faint" d={arc(1)} />
          <path class="line c-rotation faint" d={arc(-1)} />
          <path
            class="line dashed c-quiet"
            d={`M${pixel(p.x(m.re))} ${pixel(p.y(m.im))}L${pixel(p.x(-1))} ${pixel(p.y(0))}`}
          />
          {minusOne(p)}
          {minusOne(q)}
          <circle class="dot c-rotation" cx={pixel(p.x(m.re))} cy={pixel(p.y(-m.im))} r="6" />
          <path
            class="line c-reflection faint"
            d={`M${pixel(q.x(1))} ${pixel(q.y(0))}H${pixel(q.x(slid))}`}
          />
          <circle class="dot c-reflection" cx={pixel(q.x(1))} cy={pixel(q.y(0))} r="6" />
          <LetterF plane={letters} colour="c-quiet faint" />
          <LetterF plane={letters} matrix={m.q} colour="c-rotation" />
          <LetterF plane={mirrored} colour="c-quiet faint" />
          <LetterF plane={mirrored} matrix={m.h} colour="c-reflection" />
        </Drawing>
      }
      controls={["bm", "beta"]}
      more={["k"]}
    >
      <p class="panel-title c-rotation">Cayley</p>
      <dl>
        <Fact name="gap to −1" value={gap} />
        <Fact name="cosine of Qx and −x" value={clean(m.cosine, 4)} />
      </dl>
      <p class="panel-title c-reflection">Householder</p>
      <dl>
        <Fact name="eigenvalue" value={clean(slid)} />
        <Fact name="det = 1 − β" value={clean(m.h_det)} />
        <Fact name="smallest singular value" value={clean(m.h_sigma_min)} />
      </dl>
    </Figure>
  );
}
