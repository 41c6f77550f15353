import { useMemo } from "preact/hooks";
import { across, Arrow, Axes, Cross, Fact, plane, plotArea, upward } from "../../charts/axes.tsx";
import { Drawing, type Handle } from "../../charts/drawing.tsx";
import { linear, path, pixel } from "../../charts/scales.ts";
import { Button, Scrub } from "../../controls/controls.tsx";
import { Figure } from "../../controls/figure.tsx";
import { clean, nearOne, number, percent } from "../../controls/format.ts";
import { compute } from "../../engine/engine.ts";
import { snap } from "../../state/fields.ts";
import { useOperator, useWidget } from "../../state/widget.ts";
import { fields } from "./state.ts";

const size = 380;
const p = plane(size, 1.5);
const r = plotArea(380, 300, { left: 40, top: 32 });
const cx = linear(0, 1, ...across(r));
const cy = linear(0, 1, ...upward(r));

// The unit circle's image: an ellipse with the singular values as its axes.
function image(directions: ArrayLike<number>, sigma: ArrayLike<number>): string {
  const [ax, ay] = [directions[0]! * sigma[0]!, directions[2]! * sigma[0]!];
  const thin = Math.max(sigma[1]!, 0.004); // a flat image is still drawn, as a line
  const [bx, by] = [directions[1]! * thin, directions[3]! * thin];
  const unit = (value: number) => (value * p.unit).toFixed(2);
  return `matrix(${unit(ax)} ${unit(-ay)} ${unit(bx)} ${unit(-by)} ${pixel(p.x(0))} ${pixel(p.y(0))})`;
}

export function Gate() {
  const widget = useWidget("gate", fields);
  const s = widget.state;
  const { value: g, refusal } = useOperator("gate", {
    gamma: s.gamma,
    beta: s.beta,
    k: s.k,
    x0: s.x,
    x1: s.y,
    n: Number(s.n),
    seed: s.seed,
  });
  // k is a unit vector: its position follows from H = I − 2kkᵀ, which the C++ gives.
  const k = reflected(g.h, s.k);
  const handles: Handle[] = [
    {
      id: "k",
      at: [p.x(k[0]), p.y(k[1])],
      colour: "c-reflection",
      label: "k",
      drag: (px, py) =>
        widget.set({
          k: Math.round(
            compute("operators", "polar", { x: p.x.back(px), y: p.y.back(py) }).degrees,
          ),
        }),
      inputs: [
        {
          label: "direction of k in degrees",
          value: s.k,
          from: 0,
          to: 360,
          step: 3.6,
          set: (value) => widget.set({ k: snap(fields.k, value) }),
        },
      ],
    },
    {
      id: "x",
      at: [p.x(s.x), p.y(s.y)],
      colour: "c-ink",
      label: "x",
      drag: (px, py) =>
        widget.set({ x: snap(fields.x, p.x.back(px)), y: snap(fields.y, p.y.back(py)) }),
      inputs: (["x", "y"] as const).map((name) => ({
        label: fields[name].label,
        value: s[name],
        from: -1.4,
        to: 1.4,
        set: (value) => widget.set({ [name]: snap(fields[name], value) }),
      })),
    },
  ];
  const onCurve: Handle = {
    id: "gamma",
    at: [cx(s.gamma), cy(g.defect)],
    colour: "c-blend",
    drag: (px) => widget.set({ gamma: snap(fields.gamma, cx.back(px)) }),
    inputs: [
      {
        label: "γ on its curve",
        value: s.gamma,
        from: 0,
        to: 1,
        step: 0.01,
        set: (value) => widget.set({ gamma: snap(fields.gamma, value) }),
      },
    ],
  };
  // Neither γ nor x moves the curves: a drag leaves them as they are.
  const curves = useMemo(
    () => (
      <>
        <path class="line c-blend" d={path(g.grid, g.penalty_curve, cx, cy)} />
        <path class="line dashed c-ink" d={path(g.grid, g.smallest_curve, cx, cy)} />
        {Array.from(g.grid, (gamma, i) =>
          i % 5 === 0 ? (
            <>
              <circle
                class="dot c-blend"
                cx={pixel(cx(gamma))}
                cy={pixel(cy(g.defect_curve[i]!))}
                r="2.5"
              />
              <circle
                class="dot c-ink"
                cx={pixel(cx(gamma))}
                cy={pixel(cy(g.sigma_min_curve[i]!))}
                r="2.5"
              />
            </>
          ) : null,
        )}
      </>
    ),
    [s.beta, s.k, s.n, s.seed, refusal],
  );
  const flat = g.smallest < 5e-3;
  const kept =
    g.sigma_min > 1 - 1e-9
      ? "no length changes"
      : `lengths shrink to ${percent(g.sigma_min)} along one direction`;
  const sentence = `γ = ${number(s.gamma)}: ${kept}, det ${clean(g.det)}, ‖GᵀG − I‖₂ = ${clean(g.defect)}.`;
  return (
    <Figure
      widget={widget}
      caption={
        <>
          At γ = <Scrub widget={widget} name="gamma" />{" "}
          {flat
            ? "the blend is flat: the circle becomes a line, and one direction is lost."
            : s.gamma === 0 || s.gamma === 1
              ? "G is exactly orthogonal: the circle stays a circle."
              : `the circle becomes an ellipse with the axes ${nearOne(g.sigma[0]!)} and ${number(g.sigma[1]!)}.`}
        </>
      }
      sentence={sentence}
      refusal={refusal}
      buttons={
        <>
          <Button main onClick={() => widget.set({ gamma: 0.5 })}>
            Halfway: γ = ½
          </Button>
          <Button onClick={() => widget.set({ gamma: 1 })}>Rotation</Button>
          <Button onClick={() => widget.set({ gamma: 0 })}>Reflection</Button>
        </>
      }
      table={() => [
        {
          caption: `G = γQ + (1 − γ)H, n = ${s.n}`,
          head: ["quantity", "measured", "law"],
          rows: [
            ["‖GᵀG − I‖₂ = 4γ(1 − γ)", number(g.defect, 6), number(g.penalty, 6)],
            ["smallest singular value = |2γ − 1|", number(g.sigma_min, 6), number(g.smallest, 6)],
            ["largest singular value", number(g.sigma_max, 6), "at most 1"],
            ["det G", number(g.det, 6), ""],
          ],
        },
        {
          caption: "Along γ",
          head: ["γ", "‖GᵀG − I‖₂", "4γ(1 − γ)", "smallest σ", "|2γ − 1|", "det"],
          rows: Array.from(g.grid, (gamma, i) => [
            number(gamma),
            number(g.defect_curve[i]!),
            number(g.penalty_curve[i]!),
            number(g.sigma_min_curve[i]!),
            number(g.smallest_curve[i]!),
            number(g.det_curve[i]!),
          ]),
        },
      ]}
      main={
        <Drawing width={size} height={size} label={sentence} handles={handles}>
          <circle class="disc" cx={pixel(p.x(0))} cy={pixel(p.y(0))} r={pixel(p.unit)} />
          <Cross plane={p} />
          <circle
            class="area c-blend"
            vector-effect="non-scaling-stroke"
            r="1"
            transform={image(g.directions, g.sigma)}
          />
          <text
            class="label c-reflection"
            x={pixel(p.x(-1.36 * k[1]))}
            y={pixel(p.y(1.36 * k[0]) + 14)}
            text-anchor="start"
          >
            mirror
          </text>
          <path
            class="line dashed c-reflection"
            d={`M${pixel(p.x(1.4 * k[1]))} ${pixel(p.y(-1.4 * k[0]))}L${pixel(p.x(-1.4 * k[1]))} ${pixel(p.y(1.4 * k[0]))}`}
          />
          <path
            class="line c-blend faint"
            d={`M${pixel(p.x(g.qx[0]!))} ${pixel(p.y(g.qx[1]!))}L${pixel(p.x(g.hx[0]!))} ${pixel(p.y(g.hx[1]!))}`}
          />
          <Arrow plane={p} to={[s.x, s.y]} colour="c-ink" thin />
          <Arrow plane={p} to={[g.qx[0]!, g.qx[1]!]} colour="c-rotation" label="Qx" />
          <Arrow plane={p} to={[g.hx[0]!, g.hx[1]!]} colour="c-reflection" label="Hx" />
          <Arrow plane={p} to={[g.gx[0]!, g.gx[1]!]} colour="c-blend" label="Gx" />
        </Drawing>
      }
      controls={["gamma"]}
      more={["beta", "n", "k", "x", "y", "seed"]}
    >
      <Drawing
        width={r.width}
        height={r.height}
        label={`Against γ: the measured defect is on 4γ(1 − γ), the smallest singular value on |2γ − 1|, for ${s.n} streams.`}
        handles={[onCurve]}
      >
        <Axes area={r} x={cx} y={cy} xLabel="γ" yLabel="">
          {curves}
          <text class="label c-blend" x={pixel(cx(0.5))} y={pixel(cy(1) - 14)} text-anchor="middle">
            ‖GᵀG − I‖₂ = 4γ(1 − γ)
          </text>
          <text class="label c-ink" x={pixel(cx(0.5))} y={pixel(cy(0.46))} text-anchor="middle">
            smallest σ = |2γ − 1|
          </text>
          <circle class="dot c-ink" cx={pixel(cx(s.gamma))} cy={pixel(cy(g.sigma_min))} r="5" />
        </Axes>
      </Drawing>
      <dl>
        <Fact name={`‖GᵀG − I‖₂, ${s.n} streams`} value={clean(g.defect)} colour="c-blend" />
        <Fact name="4γ(1 − γ)" value={number(g.penalty)} />
        <Fact
          name={
            <>
              σ<sub>min</sub>
            </>
          }
          value={clean(g.sigma_min)}
        />
        <Fact name="det G" value={clean(g.det)} />
      </dl>
    </Figure>
  );
}

// k from H = I − 2kkᵀ: its squares are on the diagonal, their product next to it. The degrees only
// determine k's sign.
function reflected(h: ArrayLike<number>, turn: number): [number, number] {
  const x = ((1 - h[0]!) / 2) ** 0.5 || 0;
  const y = ((1 - h[3]!) / 2) ** 0.5 || 0;
  return [turn > 90 && turn < 270 ? -x : x, turn > 180 && turn < 360 ? -y : y];
}
