import { Cross, Fact, LetterF, plane } from "../../charts/axes.tsx";
import { Drawing, type Handle } from "../../charts/drawing.tsx";
import { folded, pixel } from "../../charts/scales.ts";
import { Figure } from "../../controls/figure.tsx";
import { clean, degrees, number } from "../../controls/format.ts";
import { compute } from "../../engine/engine.ts";
import { snap } from "../../state/fields.ts";
import { useOperator, useWidget } from "../../state/widget.ts";
import { captions, fields } from "./state.ts";

const size = 280;
const p = plane(size, 1.75);
const small = 150;
const f = plane(small, 1.5);

const minusOne = () => (
  <>
    <circle class="ring-mark" cx={pixel(p.x(-1))} cy={pixel(p.y(0))} r="5" />
    <text class="axis-note" x={pixel(p.x(-1) - 8)} y={pixel(p.y(0) - 9)} text-anchor="end">
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
    const wanted = Math.min(3.1408, Math.max(0, folded(radians)));
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
      turnTo(compute("operators", "polar", { x: p.x.back(px), y: p.y.back(py) }).radians),
    inputs: [
      {
        label: "angle of Cayley's eigenvalue",
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
    at: [p.x(slid), p.y(0)],
    colour: "c-reflection",
    drag: (px) => widget.set({ beta: snap(fields.beta, 1 - p.x.back(px)) }),
    inputs: [
      {
        label: "Householder's moving eigenvalue",
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
  const sentence = `Cayley at ${degrees(m.theta)}, ${degrees(m.gap)} short of −1, cosine with −x ${clean(m.cosine)}; Householder's eigenvalue at ${clean(slid)}${singular ? ": singular" : Math.abs(slid + 1) < 5e-3 ? ": a reflection" : ""}.`;
  const arc = (sign: 1 | -1) =>
    `M${pixel(p.x(1))} ${pixel(p.y(0))}A${pixel(p.unit)} ${pixel(p.unit)} 0 0 ${sign > 0 ? 0 : 1} ${pixel(p.x(m.re))} ${pixel(p.y(sign * m.im))}`;
  return (
    <Figure
      widget={widget}
      caption={singular ? captions.singular : captions.sliding}
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
      controls={["bm", "beta", "k"]}
    >
      <div class="pair">
        <p class="panel-title c-rotation">Cayley</p>
        <Drawing width={size} height={size} label={sentence} handles={[pair]}>
          <Cross plane={p} />
          <path class="line c-rotation faint" d={arc(1)} />
          <path class="line c-rotation faint" d={arc(-1)} />
          <path
            class="line dashed c-quiet"
            d={`M${pixel(p.x(m.re))} ${pixel(p.y(m.im))}L${pixel(p.x(-1))} ${pixel(p.y(0))}`}
          />
          <circle class="dot c-rotation" cx={pixel(p.x(m.re))} cy={pixel(p.y(-m.im))} r="6" />
          {minusOne()}
        </Drawing>
        <Drawing
          width={small}
          height={small}
          label="The letter F and its image under Q: turned, not mirrored."
          class="small"
        >
          <Cross plane={f} circle={false} />
          <LetterF plane={f} colour="c-quiet" />
          <LetterF plane={f} matrix={m.q} colour="c-rotation" />
        </Drawing>
        <dl>
          <Fact name="gap to −1" value={`${degrees(m.gap)}`} />
          <Fact name="cos(Qx, −x)" value={clean(m.cosine, 4)} />
        </dl>
      </div>
      <div class="pair">
        <p class="panel-title c-reflection">Householder</p>
        <Drawing width={size} height={size} label={sentence} handles={[slide]}>
          <Cross plane={p} />
          <path
            class="line c-reflection faint"
            d={`M${pixel(p.x(1))} ${pixel(p.y(0))}H${pixel(p.x(slid))}`}
          />
          <circle class="dot c-reflection" cx={pixel(p.x(1))} cy={pixel(p.y(0))} r="6" />
          {minusOne()}
        </Drawing>
        <Drawing
          width={small}
          height={small}
          label="The letter F and its image under I − βkkᵀ: flattened, then mirrored."
          class="small"
        >
          <Cross plane={f} circle={false} />
          <LetterF plane={f} colour="c-quiet" />
          <LetterF plane={f} matrix={m.h} colour="c-reflection" />
        </Drawing>
        <dl>
          <Fact name="det = 1 − β" value={clean(m.h_det)} />
          <Fact name="smallest singular value" value={clean(m.h_sigma_min)} />
        </dl>
      </div>
    </Figure>
  );
}
