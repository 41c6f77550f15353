import { useEffect, useRef, useState } from "preact/hooks";
import { across, Axes, Fact, plotArea, upward, vertical } from "../../charts/axes.tsx";
import { Drawing, type Handle } from "../../charts/drawing.tsx";
import { linear, path, pixel } from "../../charts/scales.ts";
import { Button } from "../../controls/controls.tsx";
import { Figure } from "../../controls/figure.tsx";
import { number } from "../../controls/format.ts";
import { compute } from "../../engine/engine.ts";
import { firstState, snap } from "../../state/fields.ts";
import { useOperator, useWidget } from "../../state/widget.ts";
import { fields, presets } from "./state.ts";

const r = plotArea(400, 290, { left: 44, top: 32 });
const gx = linear(0, 1, ...across(r));
const gy = linear(0, 1, ...upward(r));

export function Trap() {
  const widget = useWidget("trap", fields);
  const s = widget.state;
  const { value: t, refusal } = useOperator("trap", {
    lambda: s.lambda,
    t: s.t,
    b: s.b,
    nudge: Number(s.nudge),
    adamw: s.opt === "adamw" ? 1 : 0,
    decay: s.opt === "adamw" ? 0.01 : 0,
    steps: s.steps,
    rate: s.rate,
    noise: s.noise,
    seed: s.seed,
  });
  const { shown, play, hold, playing } = usePlay(200, [t, widget.resets]);
  const at = t.path[shown]!;
  const height = (gamma: number) => t.landscape[Math.round(gamma * 100)]!;
  const low = Math.min(0, ...t.landscape);
  const high = Math.max(0.05, ...t.landscape);
  const ly = linear(low, high * 1.12, ...upward(r));
  const sx = linear(0, s.steps, ...across(r), 4);
  const start: Handle = {
    id: "ball",
    at: [gx(t.gamma_start), ly(height(t.gamma_start))],
    colour: "c-ink",
    label: "start",
    // While it is held nothing rolls; let go, the ball rolls to where this start ends.
    drag: (px) => {
      hold();
      widget.set({ b: startFor(gx.back(px)), nudge: "0" });
    },
    drop: play,
    inputs: [
      {
        label: "start b₀ of the ball",
        value: s.b,
        from: -3,
        to: 3,
        step: 0.1,
        text: `b₀ = ${number(s.b)}, γ = ${number(t.gamma_start)}`,
        set: (value) => widget.set({ b: snap(fields.b, value) }),
      },
    ],
  };
  const end = number(t.gamma_end);
  const sentence = `Ends at γ = ${end} after ${s.steps} steps${t.watershed_exists ? `; the watershed is at ${number(t.watershed)}` : "; there is no watershed"}.`;
  const stays = Math.abs(t.gamma_end - t.gamma_start) < 1e-9;
  const on = Math.abs(t.gamma_start - 0.5) < 1e-9 && t.watershed_exists === 1;
  return (
    <Figure
      widget={widget}
      caption={
        stays && on && s.lambda > 0
          ? "The middle is a ridge: exactly on top the slope is 0, and everything next to it rolls away."
          : stays
            ? `Nothing pushes the gate: it stays at γ = ${number(t.gamma_start)}.`
            : `From γ = ${number(t.gamma_start)} the gate rolls to γ = ${end}${t.watershed_exists ? `; the watershed is at ${number(t.watershed)}` : "; no ridge is left"}.`
      }
      sentence={sentence}
      refusal={refusal}
      table={() => ({
        caption: "γ by step",
        head: ["step", "γ"],
        rows: Array.from(t.path_step, (step, i) => [number(step, 6), number(t.path[i]!, 4)]),
      })}
      buttons={
        <>
          <Button main onClick={play} pressed={playing}>
            {playing ? "Pause" : "Let it roll"}
          </Button>
          {presets.map(([name, given]) => (
            <Button onClick={() => widget.set({ ...firstState(fields), ...given })}>{name}</Button>
          ))}
        </>
      }
      main={
        <Drawing
          width={r.width}
          height={r.height}
          label={`The loss over γ is highest in the middle; arrows point downhill, away from it. ${sentence}`}
          handles={[start]}
        >
          <Axes area={r} x={gx} y={ly} xLabel="γ" yLabel="loss λ4γ(1 − γ) + tγ">
            <path
              class="area-under c-blend"
              d={`${path(t.grid, t.landscape, gx, ly)}V${r.height - r.bottom}H${r.left}Z`}
            />
            <path class="line c-blend" d={path(t.grid, t.landscape, gx, ly)} />
            {Array.from(t.arrows, (arrow, i) =>
              i % 2 === 1 && Math.abs(arrow) > 1e-12 ? (
                <path
                  class="downhill"
                  data-way={arrow > 0 ? "right" : "left"}
                  d={downhill(
                    gx(i / 20),
                    ly(t.landscape[i * 5]!),
                    arrow,
                    ly(t.landscape[Math.min(100, i * 5 + 5)]!) -
                      ly(t.landscape[Math.max(0, i * 5 - 5)]!),
                    gx(0.1) - gx(0),
                  )}
                />
              ) : null,
            )}
            <circle
              class="dot c-blend ball"
              cx={pixel(gx(at))}
              cy={pixel(ly(height(at)) - 9)}
              r="8"
            />
            {t.watershed_exists ? (
              <>
                <path class="line dashed c-quiet" d={vertical(r, gx(t.watershed))} />
                <text
                  class="label c-quiet"
                  x={pixel(gx(t.watershed) + 5)}
                  y={r.height - r.bottom - 8}
                >
                  watershed {number(t.watershed)}
                </text>
              </>
            ) : null}
          </Axes>
        </Drawing>
      }
      controls={["b", "t"]}
      more={["lambda", "opt", "nudge", "steps", "rate", "noise", "seed"]}
    >
      <Drawing
        width={r.width}
        height={r.height}
        label={`γ over the steps for this start and twenty around it. ${sentence}`}
      >
        <Axes area={r} x={sx} y={gy} xLabel="step" yLabel="γ" xText={(value) => number(value, 4)}>
          {Array.from({ length: 20 }, (_, i) => (
            <path
              class="line thin c-quiet faint"
              d={path(every(t.path_step), every(t.others.subarray(i * 201, (i + 1) * 201)), sx, gy)}
            />
          ))}
          <path class="line c-blend strong" d={path(t.path_step, t.path, sx, gy)} />
          <circle
            class="dot c-blend"
            cx={pixel(sx(t.path_step[shown]!))}
            cy={pixel(gy(at))}
            r="5"
          />
        </Axes>
      </Drawing>
      <dl>
        <Fact name="starts at γ" value={number(t.gamma_start)} />
        <Fact name="ends at γ" value={end} colour="c-blend" />
        <Fact
          name="of 20 starts around it, above ½ at the end"
          value={String(t.other_ends.filter((value) => value > 0.5).length)}
        />
      </dl>
    </Figure>
  );
}

const every = (values: Float64Array) => values.filter((_, i) => i % 4 === 0);

// The start whose gate is at γ, by bisection: the gate grows with b.
function startFor(gamma: number): number {
  let [low, high] = [-3, 3];
  for (let turn = 0; turn < 12; ++turn) {
    const middle = (low + high) / 2;
    if (startOf(middle) < gamma) low = middle;
    else high = middle;
  }
  return snap(fields.b, (low + high) / 2);
}

const startOf = (b: number) =>
  compute("operators", "trap", {
    lambda: 0,
    t: 0,
    b,
    nudge: 0,
    adamw: 0,
    decay: 0,
    steps: 1,
    rate: 0,
    noise: 0,
    seed: 1,
  }).gamma_start;

// An arrow on the curve, along it: `rise` is the curve's own over `run` pixels to both sides.
function downhill(x: number, y: number, arrow: number, rise: number, run: number): string {
  const way = Math.sign(arrow);
  const half = Math.min(13, 6 + 24 * Math.abs(arrow));
  const slope = rise / run;
  const length = (1 + slope * slope) ** 0.5;
  const [dx, dy] = [(way * half) / length, (way * half * slope) / length];
  const tip = [x + dx, y + dy] as const;
  const wing = (side: number) =>
    `M${pixel(tip[0])} ${pixel(tip[1])}L${pixel(tip[0] - 0.5 * dx - side * 0.45 * dy)} ${pixel(tip[1] - 0.5 * dy + side * 0.45 * dx)}`;
  return `M${pixel(x - dx)} ${pixel(y - dy)}L${pixel(tip[0])} ${pixel(tip[1])}${wing(1)}${wing(-1)}`;
}

// Shows the end; `play` runs through the path once, in two seconds.
function usePlay(last: number, inputs: readonly unknown[]) {
  const [shown, setShown] = useState(last);
  const [playing, setPlaying] = useState(false);
  const frame = useRef(0);
  const held = useRef(false);
  const stop = () => {
    cancelAnimationFrame(frame.current);
    setPlaying(false);
  };
  useEffect(() => {
    stop();
    setShown(held.current ? 0 : last);
  }, inputs as unknown[]);
  const run = () => {
    held.current = false;
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      setShown(last);
      return;
    }
    setPlaying(true);
    const start = performance.now() - (shown < last ? (shown / last) * 2000 : 0);
    const tick = (now: number) => {
      const at = Math.min(last, Math.max(0, Math.round(((now - start) / 2000) * last)));
      setShown(at);
      if (at < last) frame.current = requestAnimationFrame(tick);
      else setPlaying(false);
    };
    frame.current = requestAnimationFrame(tick);
  };
  return {
    shown,
    playing,
    play: () => (playing ? stop() : run()),
    hold: () => {
      held.current = true;
      setShown(0);
    },
  };
}
