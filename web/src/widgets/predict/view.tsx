import { useRef, useState } from "preact/hooks";
import { across, Axes, plotArea, upward, vertical } from "../../charts/axes.tsx";
import { Drawing, type Handle } from "../../charts/drawing.tsx";
import { linear, log, path, pixel, spread } from "../../charts/scales.ts";
import { Button } from "../../controls/controls.tsx";
import { Figure } from "../../controls/figure.tsx";
import { count, degrees, number, several } from "../../controls/format.ts";
import { model, pathLength, polar } from "../../engine/predictor.ts";
import { pageResults } from "../../numbers/store.ts";
import { firstState } from "../../state/fields.ts";
import { useComputed, useWidget } from "../../state/widget.ts";
import { distance, type Line, modelLine, positions, ruleLine, widthOf } from "./lines.ts";
import { Operators } from "./operators.tsx";
import { useOwnModel } from "./own.ts";
import { p, Picture } from "./picture.tsx";
import { fields, seen } from "./state.ts";
import { round, turnNumber } from "./turns.ts";

const r = plotArea(400, 280, { left: 50, right: 100, top: 32 });
const x = linear(1, pathLength, ...across(r), 5);
const y = log(1e-7, 10, ...upward(r));

export function Predict() {
  const widget = useWidget("predict", fields);
  const s = widget.state;
  const [drawn, setDrawn] = useState<readonly (readonly [number, number])[] | null>(null);
  const [drawing, setDrawing] = useState(false);
  const [turns, setTurns] = useState(0);
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
  const width = widthOf(q);
  const answered = s.answer === "shown";
  const now = Math.min(s.t, q.errors.length) - 1;
  const lines: Line[] = [
    modelLine("EΔ", "c-blend", "dot", q),
    modelLine("GPT", "c-gpt", "square", value.gpt),
    ...(value.own ? [modelLine(own.name, "c-mhc", "dot", value.own)] : []),
    ruleLine(q, 2, "c-nomodel dashed"),
    ruleLine(q, 1, "c-nomodel dotted"),
    ruleLine(q, 3, "c-nomodel long"),
  ];
  const [truthX, truthY] = [q.targets[now * width + state.i]!, q.targets[now * width + state.j]!];
  const guessed = s.gx !== 0 || s.gy !== 0;
  const missed = ((s.gx - truthX) ** 2 + (s.gy - truthY) ** 2) ** 0.5;
  const off = (line: Line) => number(distance(line.errors[now]!, width), 2);
  const labels = spread(
    lines.map((l) => y(Math.max(1e-7, l.errors[l.errors.length - 1]!))),
    16,
    r.top,
    r.height - r.bottom,
  );
  const inside = (px: number, py: number): [number, number] => {
    const [a, b] = [p.x.back(px), p.y.back(py)];
    const { length } = polar(a, b);
    return length > 1 ? [a / length, b / length] : [a, b];
  };
  const limited = (value: number) => Math.max(-1.2, Math.min(1.2, round(value)));
  const guess: Handle = {
    id: "guess",
    at: [p.x(s.gx), p.y(s.gy)],
    colour: "c-reflection",
    label: "your guess",
    drag: (px, py) => widget.set({ gx: limited(p.x.back(px)), gy: limited(p.y.back(py)) }),
    drop: () => widget.set({ answer: "shown" }),
    inputs: (["gx", "gy"] as const).map((name) => ({
      label: fields[name].label,
      value: s[name],
      from: -1.2,
      to: 1.2,
      step: 0.04,
      set: (v: number) => widget.set({ [name]: round(v) }),
    })),
  };
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
  const another = () => {
    setDrawn(null);
    setTurns(turns + 1);
    widget.set({ ...firstState(fields), ...turnNumber(turns + 1), t: s.t });
  };
  const named = lines.filter((line) => line.mark !== "cross");
  const told = `${guessed ? `You missed by ${number(missed, 2)}, ` : ""}${named.map((line) => `${line.name} ${guessed ? "" : "missed "}by ${off(line)}`).join(", ")}`;
  const rule = lines[lines.length - 1]!;
  const after = drawn
    ? "your own path"
    : answered
      ? `a turn by ${degrees(s.theta)} a step`
      : "a turn";
  const sentence = answered
    ? `After ${several(s.t, "state")} of ${after}: ${told}.`
    : `${several(s.t, "state")} of ${after}. Where is the next one?`;
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
  const means = pageResults().predictMeans;
  return (
    <Figure
      widget={widget}
      caption={
        !answered ? (
          <>
            {several(s.t, "state")} of {after}. <b>Where is the next one?</b>{" "}
            {drawing ? "Draw a path." : "Tap it."}
          </>
        ) : (
          <>
            After {several(s.t, "state")} of {after}: {told}
            {state.feed
              ? "; from here on each model reads its own predictions."
              : drawn
                ? "."
                : s.t < 2
                  ? ". One state says nothing about a turn."
                  : `. The two-line rule: ${off(rule)}.`}
          </>
        )
      }
      sentence={sentence}
      refusal={refusal || own.refusal}
      buttons={
        <>
          {answered ? (
            <Button main onClick={another}>
              Another turn
            </Button>
          ) : (
            <Button main onClick={() => widget.set({ answer: "shown" })}>
              Show the models
            </Button>
          )}
          <Button pressed={drawing} onClick={() => setDrawing(!drawing)}>
            {drawing ? "Stop drawing" : "Draw a path"}
          </Button>
          {drawn ? <Button onClick={() => setDrawn(null)}>Back to the turn</Button> : null}
        </>
      }
      table={() => ({
        caption: "Squared error by position",
        head: ["position", ...lines.map((l) => l.name)],
        rows: Array.from(q.errors, (_, t) => [t + 1, ...lines.map((l) => number(l.errors[t]!))]),
      })}
      main={
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
          <Picture
            prediction={q}
            plane={state}
            shown={now + 1}
            lines={answered ? lines : []}
            guess={guessed ? [s.gx, s.gy] : null}
            handles={drawing ? [] : !answered ? [guess] : drawn ? [] : [start]}
            tap={!answered && !drawing}
            label={`The plane of the turn: the states shown${answered ? ", the truth, and what everybody predicts next" : ""}. ${sentence}`}
          />
        </div>
      }
      controls={["t"]}
      more={["theta", "feed", "model", "answer", "x", "y", "i", "j"]}
    >
      <p class="legend">
        <span class="c-blend">● EΔ</span> <span class="c-gpt">■ GPT</span>{" "}
        {value.own ? <span class="c-mhc">● {own.name}</span> : null}{" "}
        <span class="c-nomodel">× learns nothing</span> <span class="c-reflection">◆ you</span>
      </p>
      {answered ? (
        <Drawing
          width={r.width}
          height={r.height}
          label={`Squared error by number of states seen, log axis. ${sentence}`}
        >
          <Axes area={r} x={x} y={y} xLabel="states seen" yLabel="squared error of the next state">
            <path class="reader" d={vertical(r, x(s.t))} />
            {lines.map((l, i) => (
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
      ) : (
        <p class="hint">
          The point turns in the plane of two of its sixteen axes, by the same angle in every step.
          The models know no more than the states that you see.
        </p>
      )}
      {means ? (
        <dl>
          <div class="fact head">
            <dt>squared error over 200 turns</dt>
            <dd>mean</dd>
          </div>
          {Object.entries(means).map(([name, mean]) => (
            <div class="fact">
              <dt>{name}</dt>
              <dd>{number(mean)}</dd>
            </div>
          ))}
        </dl>
      ) : null}
      {answered && s.theta > seen && !drawn ? (
        <p class="hint">Training had no turn as large as this one.</p>
      ) : null}
      {state.feed && own.model && !own.model.info.causal ? (
        <p class="hint">
          {own.name} reads the whole sequence at once, so feeding predictions back changes nothing
          for it.
        </p>
      ) : null}
      <details class="note-fold">
        <summary>Inside the model</summary>
        <Operators
          prediction={probes}
          info={chosen.info}
          at={now}
          name={fields.model.names[s.model]!}
        />
        <p class="hint">
          EΔ has {count(model("edelta")!.info.parameters)} parameters, GPT{" "}
          {count(model("gpt")!.info.parameters)}.
        </p>
      </details>
      {own.note ? <p class="hint">{own.note}</p> : null}
    </Figure>
  );
}
