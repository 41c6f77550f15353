import {
  across,
  Arrow,
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
import { log, path, pixel, stop } from "../../charts/scales.ts";
import { Button, Choose, Scrub } from "../../controls/controls.tsx";
import { Figure } from "../../controls/figure.tsx";
import { fixed, halfTurn, number } from "../../controls/format.ts";
import { compute } from "../../engine/engine.ts";
import { firstState, snap } from "../../state/fields.ts";
import { useOperator, useWidget } from "../../state/widget.ts";
import { fields, ways } from "./state.ts";

const size = 400;
const p = plane(size, 2.12);
const small = 150;
const away = plane(small, 1.5);
const r = plotArea(400, 300, { left: 52, top: 32 });
const x = log(1e-2, 1e8, ...across(r));
const y = log(1e-17, 10, ...upward(r));
const floor = (value: number) => Math.max(value, 1e-17);
const near = 2; // points this close to parallel (in px) become parallel
const dial = 1.75; // radius of the arc's end
const broken = 0.01; // a QᵀQ this far from I is no rotation any more

const dyadic = (value: number, parts: number) => Math.round(value * parts) / parts;
const within = (value: number) => Math.min(2, Math.max(-2, value));

export function Turn() {
  const widget = useWidget("turn", fields);
  const s = widget.state;
  const inputs = {
    beta: s.beta,
    ux: s.ux,
    uy: s.uy,
    vx: s.vx,
    vy: s.vy,
    single: s.type === "32" ? 1 : 0,
    solve: s.how === "solve" ? 1 : 0,
    seed: s.seed,
    wanted: 0,
  };
  const { value: t, refusal } = useOperator("turn", inputs);
  const exists = t.mu > 0;
  const clockwise = t.area < 0;

  // The arc is dragged to an angle; the C++ says which β that takes.
  const turnTo = (radians: number) => {
    const wanted = Math.min(3.1415, Math.max(0, radians));
    const answer = compute("operators", "turn", { ...inputs, wanted });
    if (exists && Number.isFinite(answer.beta_for_wanted))
      widget.set({ beta: snap(fields.beta, answer.beta_for_wanted, 0) });
  };
  const arc: Handle = {
    id: "arc",
    at: [p.x(dial * t.q[0]!), p.y(dial * t.q[2]!)],
    colour: "c-blend",
    label: "θ",
    drag: (px, py) => {
      const { radians } = compute("operators", "polar", { x: p.x.back(px), y: p.y.back(py) });
      turnTo(stop(clockwise ? 2 * Math.PI - radians : radians, t.theta));
    },
    inputs: [
      {
        label: "angle that Q turns by",
        value: t.theta,
        from: 0,
        to: 3.14,
        step: 0.0314,
        text: halfTurn(t.theta, t.gap),
        set: turnTo,
      },
    ],
  };
  // Moves one vector; where it comes close to the line of the other it is put on that line exactly
  // (on a grid of binary fractions, so that the products cancel to the last bit).
  const move = (which: "u" | "v", px: number, py: number) => {
    const other = which === "u" ? "v" : "u";
    let at = [dyadic(within(p.x.back(px)), 128), dyadic(within(p.y.back(py)), 128)];
    let fixedPoint = [s[`${other}x`], s[`${other}y`]];
    const area = at[0]! * fixedPoint[1]! - at[1]! * fixedPoint[0]!;
    const square = fixedPoint[0]! ** 2 + fixedPoint[1]! ** 2;
    if (area ** 2 * p.unit ** 2 <= near ** 2 * square && square > 0.01) {
      fixedPoint = fixedPoint.map((value) => dyadic(value, 128));
      const along = at[0]! * fixedPoint[0]! + at[1]! * fixedPoint[1]!;
      const factor = dyadic(along / square, 32);
      at = fixedPoint.map((value) => within(factor * value));
    }
    widget.set({
      [`${which}x`]: at[0],
      [`${which}y`]: at[1],
      [`${other}x`]: fixedPoint[0],
      [`${other}y`]: fixedPoint[1],
    });
  };
  const vector = (which: "u" | "v", colour: string): Handle => ({
    id: which,
    at: [p.x(s[`${which}x`]), p.y(s[`${which}y`])],
    colour,
    label: which,
    drag: (px, py) => move(which, px, py),
    inputs: (["x", "y"] as const).map((axis) => ({
      label: fields[`${which}${axis}`].label,
      value: s[`${which}${axis}`],
      from: -2,
      to: 2,
      step: 0.04,
      set: (value) => widget.set({ [`${which}${axis}`]: Number(value.toFixed(6)) }),
    })),
  });

  const angle = halfTurn(t.theta, t.gap);
  const fails = t.defect > broken;
  const sentence = !exists
    ? "u and v are parallel: A is zero, there is no plane, and Q = I."
    : `Area ${number(t.area)}, μ ${number(t.mu)}; Q turns by ${angle}, det ${number(t.det)}, largest entry of QᵀQ − I ${number(t.defect)}.`;
  const corner = (a: number, b: number) => `${pixel(p.x(a))} ${pixel(p.y(b))}`;
  const way = ways.find((item) => item.type === s.type && item.how === s.how)!;
  return (
    <Figure
      widget={widget}
      caption={
        !exists ? (
          "Parallel vectors span no plane: A = 0, and the rotation is the identity."
        ) : fails ? (
          <>
            In {way.name}, β = <Scrub widget={widget} name="beta" /> no longer gives a rotation: QᵀQ
            is off by {number(t.defect)}.
          </>
        ) : (
          <>
            An area of {number(t.mu)} and β = <Scrub widget={widget} name="beta" /> turn the F by{" "}
            {angle}
            {t.theta > 3.05 ? ": close to a half turn, never at it." : ", without mirroring it."}
          </>
        )
      }
      sentence={sentence}
      refusal={refusal}
      buttons={
        <>
          <Button main onClick={() => widget.set({ ...firstState(fields), beta: 96 / t.mu || 96 })}>
            Turn as far as it goes
          </Button>
          <Button
            onClick={() =>
              widget.set({ ...firstState(fields), beta: 1e8, type: "32", how: "solve" })
            }
          >
            Break it in float32
          </Button>
        </>
      }
      table={() => [
        {
          caption: "A = uvᵀ − vuᵀ and Q at the present β",
          head: ["quantity", "value"],
          rows: [
            ["u", [s.ux, s.uy].map((value) => fixed(value)).join(", ")],
            ["v", [s.vx, s.vy].map((value) => fixed(value)).join(", ")],
            ["signed area of u and v", number(t.area)],
            ["μ", number(t.mu)],
            ["θ = 2 atan(βμ/2)", angle],
            ["det Q", number(t.det, 6)],
            ["largest |QᵀQ − I|", number(t.defect)],
          ],
        },
        {
          caption: "Largest |QᵀQ − I| in four dimensions against β",
          head: ["β", ...ways.map((item) => item.name)],
          rows: Array.from(t.grid, (beta, i) => [
            number(beta),
            ...ways.map((item) => number(t[item.key][i]!)),
          ]),
        },
      ]}
      main={
        <Drawing
          width={size}
          height={size}
          label={sentence}
          tap
          handles={[vector("u", "c-rotation"), vector("v", "c-reflection"), arc]}
        >
          <Cross plane={p} circle={false} />
          <circle class="dial" cx={pixel(p.x(0))} cy={pixel(p.y(0))} r={pixel(dial * p.unit)} />
          <path
            class="area c-quiet"
            d={`M${corner(0, 0)}L${corner(s.ux, s.uy)}L${corner(s.ux + s.vx, s.uy + s.vy)}L${corner(s.vx, s.vy)}Z`}
          />
          <LetterF plane={p} colour="c-quiet faint" />
          <LetterF plane={p} matrix={t.q} colour="c-blend" />
          <Arrow plane={p} to={[s.ux, s.uy]} colour="c-rotation" />
          <Arrow plane={p} to={[s.vx, s.vy]} colour="c-reflection" />
          <path
            class="line c-blend"
            d={`M${corner(dial, 0)}A${pixel(dial * p.unit)} ${pixel(dial * p.unit)} 0 0 ${clockwise ? 1 : 0} ${pixel(arc.at[0])} ${pixel(arc.at[1])}`}
          />
        </Drawing>
      }
      controls={["beta"]}
      more={["ux", "uy", "vx", "vy", "seed"]}
    >
      <div class="side-by-side">
        <Matrix name="A" values={t.a} columns={2} />
        <dl>
          <Fact name="μ, the area" value={number(t.mu)} />
          <Fact name="θ" value={angle} />
          <Fact name="det Q" value={number(t.det, 6)} />
        </dl>
      </div>
      <details class="note-fold" open={fails}>
        <summary>Exact in floating point?</summary>
        <p class="hint">
          Q is made in four dimensions, in a plane that lies askew; along the axes every way of
          computing is exact.
        </p>
        <Drawing
          width={r.width}
          height={r.height}
          label={`Largest entry of QᵀQ − I against β, four ways of computing. At the largest β: ${ways.map((item) => `${item.name} ${number(t[item.key][50]!)}`).join(", ")}.`}
        >
          <Axes area={r} x={x} y={y} xLabel="β" yLabel="largest |QᵀQ − I|">
            {ways.map((item) => (
              <path
                class={`line ${item.how === "closed" ? "c-rotation" : "c-reflection"} ${item.type === "32" ? "dashed" : ""} ${item === way ? "strong" : "faint"}`}
                d={path(t.grid, t[item.key].map(floor), x, y)}
              />
            ))}
            {ways.map((item) => (
              <text
                class={`label ${item.how === "closed" ? "c-rotation" : "c-reflection"}`}
                x={pixel(x(item.how === "solve" ? 1.5e7 : 2e3))}
                y={pixel(
                  y(floor(t[item.key][item.how === "solve" ? 45 : 27]!)) +
                    (item.key === "solve64" ? 24 : -9),
                )}
                text-anchor={item.how === "solve" ? "end" : "middle"}
              >
                {item.name}
              </text>
            ))}
            {s.beta >= 1e-2 ? (
              <circle
                class={`dot ${s.how === "closed" ? "c-rotation" : "c-reflection"}`}
                cx={pixel(x(s.beta))}
                cy={pixel(y(floor(t.defect)))}
                r="5"
              />
            ) : null}
          </Axes>
        </Drawing>
        <Ways widget={widget} />
        <div class="side-by-side">
          <Drawing
            width={small}
            height={small}
            class="small"
            label={
              fails
                ? "The letter F in the plane that Q must leave alone: it has moved."
                : "The letter F in the plane that Q must leave alone: it stays."
            }
          >
            <Cross plane={away} circle={false} />
            <LetterF plane={away} colour="c-quiet faint" />
            <LetterF plane={away} matrix={t.kept} colour={fails ? "c-reflection" : "c-rotation"} />
          </Drawing>
          <p class="hint">
            An F in the plane that Q must leave alone {fails ? "is bent" : "stays"}. The largest
            entry of QᵀQ − I is {number(t.defect)}.
          </p>
        </div>
        <dl>
          <Fact name="largest |QᵀQ − I|" value={number(t.defect)} />
        </dl>
      </details>
    </Figure>
  );
}

const Ways = ({ widget }: { widget: ReturnType<typeof useWidget<typeof fields>> }) => (
  <div class="controls">
    <Choose widget={widget} name="type" />
    <Choose widget={widget} name="how" />
  </div>
);
