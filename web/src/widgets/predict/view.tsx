import { useRef, useState } from "preact/hooks";
import { across, Axes, Cross, plane, plotArea, upward, vertical } from "../../charts/axes.tsx";
import { Drawing, type Handle } from "../../charts/drawing.tsx";
import { linear, log, path, pixel, spread } from "../../charts/scales.ts";
import { Button, Scrub } from "../../controls/controls.tsx";
import { Figure } from "../../controls/figure.tsx";
import { count, degrees, number } from "../../controls/format.ts";
import { model, pathLength, polar, type Prediction, rules } from "../../engine/predictor.ts";
import { useComputed, useWidget } from "../../state/widget.ts";
import { Operators } from "./operators.tsx";
import { fields, seen } from "./state.ts";
import { useOwnModel } from "./own.ts";

const size = 340;
const p = plane(size, 1.35);
const r = plotArea(400, 300, { left: 50, right: 100, top: 32 });
const x = linear(1, pathLength, ...across(r), 5);
const y = log(1e-7, 10, ...upward(r));
const positions = Array.from({ length: pathLength }, (_, i) => i + 1);

interface Line {
  name: string;
  class: string;
  mark: "dot" | "hollow" | "cross";
  states: Float64Array;
  errors: Float64Array;
  mse: number;
}

const ruleLine = (q: Prediction, rule: number, style: string): Line => {
  const width = q.targets.length / q.errors.length;
  const length = q.errors.length;
  return {
    name: rules[rule]!,
    class: style,
    mark: "cross",
    states: q.rules.subarray(rule * length * width, (rule + 1) * length * width),
    errors: q.rulesErrors.slice(rule * 256, rule * 256 + length),
    mse: q.rulesMse[rule]!,
  };
};

export function Predict() {
  const widget = useWidget("predict", fields);
  const s = widget.state;
  const [drawn, setDrawn] = useState<readonly (readonly [number, number])[] | null>(null);
  const [drawing, setDrawing] = useState(false);
  const stroke = useRef<[number, number][] | null>(null);
  const own = useOwnModel();
  const j = s.i === s.j ? (Number(s.j) + 1) % 16 : Number(s.j);
  const state = {
    i: Number(s.i),
    j,
    x: s.x,
    y: s.y,
    theta: s.theta,
    shown: s.t,
    feed: s.feed === "yes",
    ...(drawn ? { drawn } : {}),
  };
  const key = [s.i, s.j, s.x, s.y, s.theta, s.t, s.feed, drawn, own.model];
  const { value, refusal } = useComputed(
    () => ({
      edelta: model("edelta")!.run(state),
      gpt: model("gpt")!.run(state),
      own: own.model ? own.model.run(state) : null,
    }),
    key,
  );
  const q = value.edelta;
  const width = q.targets.length / q.errors.length;
  const line = (name: string, style: string, from: Prediction): Line => ({
    name,
    class: style,
    mark: "dot",
    states: from.outputs,
    errors: from.errors,
    mse: from.mse,
  });
  const lines: Line[] = [
    line("EΔ", "c-blend", q),
    line("GPT", "c-additive", value.gpt),
    ...(value.own ? [line(own.name, "c-shc", value.own)] : []),
    ruleLine(q, 2, "c-nomodel dashed"),
    ruleLine(q, 1, "c-nomodel dotted"),
  ];
  const errorLines = [...lines, ruleLine(q, 3, "c-nomodel long")];
  const labels = spread(
    errorLines.map((l) => y(Math.max(1e-7, l.errors[l.errors.length - 1]!))),
    16,
    r.top,
    r.height - r.bottom,
  );
  const at = (states: Float64Array, t: number): [number, number] => [
    states[t * width + state.i]!,
    states[t * width + state.j]!,
  ];
  const second = at(q.targets, 0);
  const inside = (px: number, py: number): [number, number] => {
    const [a, b] = [p.x.back(px), p.y.back(py)];
    const { length } = polar(a, b);
    return length > 1 ? [a / length, b / length] : [a, b];
  };
  const round = (v: number) => Number(v.toFixed(3));
  const start: Handle = {
    id: "start",
    at: [p.x(s.x), p.y(s.y)],
    colour: "c-ink",
    label: "start",
    drag: (px, py) => {
      const [a, b] = inside(px, py);
      setDrawn(null);
      widget.set({ x: round(a), y: round(b) });
    },
    inputs: (["x", "y"] as const).map((name) => ({
      label: fields[name].label,
      value: s[name],
      from: -1,
      to: 1,
      step: 0.02,
      set: (v: number) => {
        const [a, b] = inside(p.x(name === "x" ? v : s.x), p.y(name === "y" ? v : s.y));
        widget.set({ x: round(a), y: round(b) });
      },
    })),
  };
  const turn: Handle = {
    id: "turn",
    at: [p.x(second[0]), p.y(second[1])],
    colour: "c-rotation",
    label: "next",
    drag: (px, py) => {
      const from = polar(s.x, s.y).radians;
      const to = polar(p.x.back(px), p.y.back(py)).radians;
      const angle = to - from < 0 ? to - from + 2 * Math.PI : to - from;
      const theta = angle > Math.PI ? (angle > 1.5 * Math.PI ? 0.1 : 3.14) : angle;
      setDrawn(null);
      widget.set({ theta: Math.min(3.14, Math.max(0.1, round(theta))) });
    },
    inputs: [
      {
        label: "angle a step",
        value: s.theta,
        from: 0.1,
        to: 3.14,
        text: degrees(s.theta),
        set: (v) => widget.set({ theta: round(v) }),
      },
    ],
  };
  const shownAt = Math.min(s.t, q.errors.length) - 1;
  const off = (l: Line) => number(l.errors[shownAt]!, 2);
  const sentence = `After ${s.t} states the squared error of EΔ is ${off(lines[0]!)}, of GPT ${off(lines[1]!)}, of the running mean ${off(errorLines[errorLines.length - 3]!)}${s.theta > seen && !drawn ? "; a turn this large was never seen in training" : ""}.`;
  const chosen =
    s.model === "gpt"
      ? model("gpt")!
      : s.model === "own" && own.model
        ? own.model
        : model("edelta")!;
  const probes = s.model === "gpt" ? value.gpt : s.model === "own" && value.own ? value.own : q;
  const track = (event: PointerEvent, svg: SVGElement) => {
    const matrix = (svg as SVGSVGElement).getScreenCTM();
    if (!matrix || !stroke.current) return;
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    stroke.current.push(inside(point.x, point.y));
    if (stroke.current.length > 3) setDrawn([...stroke.current]);
  };
  return (
    <Figure
      widget={widget}
      caption={
        <>
          Shown <Scrub widget={widget} name="t" /> states of a turn by{" "}
          <Scrub widget={widget} name="theta" text={degrees(s.theta)} /> a step, both models predict
          the next one; a two-line rule does it better.
        </>
      }
      sentence={sentence}
      refusal={refusal || own.refusal}
      buttons={
        <>
          <Button pressed={drawing} onClick={() => setDrawing(!drawing)}>
            {drawing ? "Stop drawing" : "Draw a path"}
          </Button>
          {drawn ? <Button onClick={() => setDrawn(null)}>Back to the turn</Button> : null}
        </>
      }
      table={() => ({
        caption: "Squared error by position",
        head: ["position", ...errorLines.map((l) => l.name)],
        rows: Array.from(q.errors, (_, t) => [
          t + 1,
          ...errorLines.map((l) => number(l.errors[t]!)),
        ]),
      })}
      controls={["t", "theta", "feed", "model"]}
      more={["x", "y", "i", "j"]}
    >
      <div
        class={drawing ? "pad" : ""}
        onPointerDown={(event) => {
          if (!drawing) return;
          stroke.current = [];
          (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
        }}
        onPointerMove={(event) => {
          if (drawing) track(event, (event.currentTarget as HTMLElement).querySelector("svg")!);
        }}
        onPointerUp={() => (stroke.current = null)}
      >
        <Drawing
          width={size}
          height={size}
          label={`The states in the plane of two axes: the truth, both models, the running mean and the copy. ${sentence}`}
          handles={drawing ? [] : drawn ? [] : [start, turn]}
        >
          <Cross plane={p} />
          <path
            class="line c-ink faint"
            d={path(
              [s.x, ...positions.map((_, t) => at(q.targets, t)[0])],
              [s.y, ...positions.map((_, t) => at(q.targets, t)[1])],
              p.x,
              p.y,
            )}
          />
          {positions.map((_, t) => (
            <circle
              class="ring-mark"
              cx={pixel(p.x(at(q.targets, t)[0]))}
              cy={pixel(p.y(at(q.targets, t)[1]))}
              r="6"
            />
          ))}
          {lines.map((l) => (
            <g data-path={l.name}>
              {positions.map((_, t) => {
                const [a, b] = at(l.states, t);
                const [px, py] = [
                  p.x(Math.max(-1.35, Math.min(1.35, a))),
                  p.y(Math.max(-1.35, Math.min(1.35, b))),
                ];
                return l.mark === "dot" ? (
                  <circle
                    class={`dot ${l.class} ${t < shownAt ? "past" : ""}`}
                    cx={pixel(px)}
                    cy={pixel(py)}
                    r={t === shownAt ? 5.5 : 3}
                  />
                ) : t >= shownAt ? (
                  <path
                    class={`line thin ${l.class.split(" ")[0]}`}
                    d={`M${pixel(px - 3)} ${pixel(py - 3)}l6 6m0 -6l-6 6`}
                  />
                ) : null;
              })}
            </g>
          ))}
        </Drawing>
      </div>
      <Drawing
        width={r.width}
        height={r.height}
        class="main"
        label={`Squared error by position, log axis. ${sentence}`}
      >
        <Axes area={r} x={x} y={y} xLabel="states seen" yLabel="squared error of the next state">
          <path class="reader" d={vertical(r, x(s.t))} />
          {errorLines.map((l, i) => (
            <>
              <path
                class={`line ${l.class}`}
                d={path(
                  positions.slice(0, l.errors.length),
                  Array.from(l.errors, (v) => Math.max(1e-7, v)),
                  x,
                  y,
                )}
              />
              <text
                class={`label ${l.class.split(" ")[0]}`}
                x={r.width - r.right + 5}
                y={pixel(labels[i]! + 4)}
              >
                {l.name}
              </text>
            </>
          ))}
        </Axes>
      </Drawing>
      <dl class="facts-row">
        {errorLines.map((l) => (
          <div class="fact">
            <dt>{l.name}, MSE of this path</dt>
            <dd>{number(l.mse)}</dd>
          </div>
        ))}
      </dl>
      <Operators
        prediction={probes}
        info={chosen.info}
        at={shownAt}
        name={fields.model.names[s.model]!}
      />
      <p class="hint">
        EΔ {count(model("edelta")!.info.parameters)} parameters, GPT{" "}
        {count(model("gpt")!.info.parameters)}. {own.note}
      </p>
    </Figure>
  );
}
