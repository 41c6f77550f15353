import {
  across,
  Axes,
  Cross,
  Fact,
  LetterF,
  Matrix,
  plane,
  plotArea,
  upward,
} from "../../charts/axes.tsx";
import { Drawing, type Handle } from "../../charts/drawing.tsx";
import { folded, log, path, pixel } from "../../charts/scales.ts";
import { Scrub } from "../../controls/controls.tsx";
import { Figure } from "../../controls/figure.tsx";
import { degrees, number } from "../../controls/format.ts";
import { compute } from "../../engine/engine.ts";
import { snap } from "../../state/fields.ts";
import { useOperator, useWidget } from "../../state/widget.ts";
import { fields, ways } from "./state.ts";

const size = 320;
const p = plane(size, 1.55);
const r = plotArea(400, 330, { left: 52, top: 32 });
const x = log(1e-2, 1e8, ...across(r));
const y = log(1e-17, 10, ...upward(r));
const floor = (value: number) => Math.max(value, 1e-17);

export function Turn() {
  const widget = useWidget("turn", fields);
  const s = widget.state;
  const inputs = {
    beta: s.beta,
    angle: s.angle,
    length: s.v,
    single: s.type === "32" ? 1 : 0,
    solve: s.how === "solve" ? 1 : 0,
    seed: s.seed,
    wanted: 0,
  };
  const { value: t, refusal } = useOperator("turn", inputs);

  // The arc is dragged to an angle; the C++ says which β that takes.
  const turnTo = (radians: number) => {
    const wanted = Math.min(3.1415, Math.max(0, folded(radians)));
    const answer = compute("operators", "turn", { ...inputs, wanted });
    if (Number.isFinite(answer.beta_for_wanted))
      widget.set({ beta: snap(fields.beta, answer.beta_for_wanted, 0) });
  };
  const turned = t.q[2]! < 0 ? -Math.abs(t.theta) : Math.abs(t.theta);
  const reach = 1.28;
  const tip: [number, number] = [p.x(reach * t.q[0]!), p.y(reach * t.q[2]!)];
  const arc: Handle = {
    id: "arc",
    at: tip,
    colour: "c-rotation",
    drag: (px, py) =>
      turnTo(compute("operators", "polar", { x: p.x.back(px), y: p.y.back(py) }).radians),
    inputs: [
      {
        label: "angle that Q turns by",
        value: Math.abs(t.theta),
        from: 0,
        to: 3.14,
        step: 0.0314,
        text: degrees(Math.abs(t.theta)),
        set: turnTo,
      },
    ],
  };
  const large = Math.abs(t.theta) > Math.PI / 2 + 1e-9 ? 1 : 0;
  const radius = pixel(0.35 * p.unit);
  const arcPath = `M${pixel(p.x(0.35))} ${pixel(p.y(0))}A${radius} ${radius} 0 ${large && Math.abs(t.theta) > Math.PI ? 1 : 0} ${turned < 0 ? 1 : 0} ${pixel(p.x(0.35 * t.q[0]!))} ${pixel(p.y(0.35 * t.q[2]!))}`;
  const sentence = `Turns by ${degrees(Math.abs(t.theta))}, det ${number(t.det)}, largest deviation of QᵀQ from I ${number(t.defect)}.`;
  return (
    <Figure
      widget={widget}
      caption={
        <>
          With β = <Scrub widget={widget} name="beta" /> the plane of u and v turns by{" "}
          {degrees(Math.abs(t.theta))}. The F is never mirrored, and never reaches 180°.
        </>
      }
      sentence={sentence}
      refusal={refusal}
      table={() => [
        {
          caption: "Q at the present β",
          head: ["quantity", "value"],
          rows: [
            ["θ = 2 atan(βμ/2)", degrees(Math.abs(t.theta))],
            ["μ", number(t.mu)],
            ["det Q", number(t.det, 6)],
            ["largest |QᵀQ − I|, n = 2", number(t.defect)],
            ["largest |QᵀQ − I|, n = 4", number(t.defect4)],
          ],
        },
        {
          caption: "Largest |QᵀQ − I| at n = 4 against β",
          head: ["β", ...ways.map((way) => way.name)],
          rows: Array.from(t.grid, (beta, i) => [
            number(beta),
            ...ways.map((way) => number(t[way.key][i]!)),
          ]),
        },
      ]}
      controls={["beta", "angle", "type", "how"]}
      more={["v", "seed"]}
    >
      <Drawing width={size} height={size} label={sentence} handles={[arc]}>
        <Cross plane={p} />
        <LetterF plane={p} colour="c-quiet" />
        <LetterF plane={p} matrix={t.q} colour="c-rotation" />
        <path class="line c-rotation" d={arcPath} />
        <path
          class="line thin c-rotation"
          d={`M${pixel(p.x(0))} ${pixel(p.y(0))}L${pixel(tip[0])} ${pixel(tip[1])}`}
        />
      </Drawing>
      <Drawing
        width={r.width}
        height={r.height}
        class="main"
        label={`Largest deviation of QᵀQ from I against β, four ways of computing. At β = 1e8: ${ways.map((way) => `${way.name} ${number(t[way.key][50]!)}`).join(", ")}.`}
      >
        <Axes area={r} x={x} y={y} xLabel="β" yLabel="largest |QᵀQ − I|, n = 4">
          {ways.map((way) => (
            <path
              class={`line ${way.how === "closed" ? "c-rotation" : "c-reflection"} ${way.type === "32" ? "dashed" : ""} ${way.type === s.type && way.how === s.how ? "strong" : "faint"}`}
              d={path(t.grid, t[way.key].map(floor), x, y)}
            />
          ))}
          {ways.map((way) => (
            <text
              class={`label ${way.how === "closed" ? "c-rotation" : "c-reflection"}`}
              x={pixel(x(way.how === "solve" ? 1.5e7 : 2e3))}
              y={pixel(
                y(floor(t[way.key][way.how === "solve" ? 45 : 27]!)) +
                  (way.key === "solve64" ? 24 : -9),
              )}
              text-anchor={way.how === "solve" ? "end" : "middle"}
            >
              {way.name}
            </text>
          ))}
          {s.beta >= 1e-2 ? (
            <circle
              class={`dot ${s.how === "closed" ? "c-rotation" : "c-reflection"}`}
              cx={pixel(x(s.beta))}
              cy={pixel(y(floor(t.defect4)))}
              r="5"
            />
          ) : null}
        </Axes>
      </Drawing>
      <div class="side facts-row">
        <Matrix name="QᵀQ" values={t.gram} columns={2} digits={4} />
        <dl>
          <Fact name="det Q" value={number(t.det, 6)} />
          <Fact
            name="θ"
            value={`${degrees(Math.abs(t.theta))} = ${number(Math.abs(t.theta), 4)}`}
          />
          <Fact name="largest |QᵀQ − I|" value={number(t.defect)} />
          <Fact name="the same at n = 4" value={number(t.defect4)} />
        </dl>
      </div>
    </Figure>
  );
}
