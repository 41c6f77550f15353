// The plane of the turn: the states shown, the guess, and the predictions of the next state.
import { Cross, plane } from "../../charts/axes.tsx";
import { Drawing, type Handle } from "../../charts/drawing.tsx";
import { path, pixel } from "../../charts/scales.ts";
import type { Prediction } from "../../engine/predictor.ts";
import { type Line, widthOf } from "./lines.ts";

const size = 400;
export const p = plane(size, 1.25);

type Point = readonly [number, number];
const kept = (value: number) => Math.max(-1.25, Math.min(1.25, value));
const spot = ([a, b]: Point) => [p.x(kept(a)), p.y(kept(b))] as const;

function Mark({ line, at, truth }: { line: Line; at: Point; truth: Point }) {
  const [x, y] = spot(at);
  const [tx, ty] = spot(truth);
  const style = line.class.split(" ")[0];
  return (
    <g data-path={line.name}>
      <path
        class={`line thin ${style} faint`}
        d={`M${pixel(x)} ${pixel(y)}L${pixel(tx)} ${pixel(ty)}`}
      />
      {line.mark === "dot" ? (
        <circle class={`dot ${style}`} cx={pixel(x)} cy={pixel(y)} r="6.5" />
      ) : line.mark === "square" ? (
        <rect class={`dot ${style}`} x={pixel(x - 6)} y={pixel(y - 6)} width="12" height="12" />
      ) : (
        <path class={`line ${style}`} d={`M${pixel(x - 4)} ${pixel(y - 4)}l8 8m0 -8l-8 8`} />
      )}
    </g>
  );
}

export function Picture(props: {
  prediction: Prediction;
  plane: { i: number; j: number };
  shown: number; // states given
  lines: readonly Line[]; // none while the answer is hidden
  guess: Point | null;
  handles: readonly Handle[];
  label: string;
  tap: boolean;
}) {
  const q = props.prediction;
  const width = widthOf(q);
  const at = (states: Float64Array, t: number): Point => [
    states[t * width + props.plane.i]!,
    states[t * width + props.plane.j]!,
  ];
  const given = Array.from({ length: props.shown }, (_, t) => at(q.inputs, t));
  const truth = at(q.targets, props.shown - 1);
  const answered = props.lines.length > 0;
  const trail = answered ? [...given, truth] : given;
  const last = spot(given[given.length - 1]!);
  return (
    <Drawing
      width={size}
      height={size}
      label={props.label}
      handles={props.handles}
      tap={props.tap}
      class="main"
    >
      <circle class="disc" cx={pixel(p.x(0))} cy={pixel(p.y(0))} r={pixel(p.unit)} />
      <Cross plane={p} />
      <path
        class="line thin c-ink faint"
        d={path(
          trail.map((point) => point[0]),
          trail.map((point) => point[1]),
          p.x,
          p.y,
        )}
      />
      {given.map((point, t) => {
        const [x, y] = spot(point);
        const newest = t === given.length - 1;
        return (
          <g class={newest ? "state newest" : "state"}>
            <circle cx={pixel(x)} cy={pixel(y)} r={newest ? 10 : 8} />
            {props.shown <= 9 ? (
              <text x={pixel(x)} y={pixel(y + 4)} text-anchor="middle">
                {t + 1}
              </text>
            ) : null}
          </g>
        );
      })}
      {answered ? null : (
        <text class="label c-ink" x={pixel(last[0] + 13)} y={pixel(last[1] - 11)}>
          now
        </text>
      )}
      {answered ? (
        <>
          <circle class="truth" cx={pixel(spot(truth)[0])} cy={pixel(spot(truth)[1])} r="13" />
          <text class="label c-ink" x={pixel(spot(truth)[0] + 15)} y={pixel(spot(truth)[1] + 20)}>
            truth
          </text>
          {props.lines.map((line) => (
            <Mark line={line} at={at(line.states, props.shown - 1)} truth={truth} />
          ))}
          {props.guess ? (
            <path
              class="guess"
              d={`M${pixel(spot(props.guess)[0])} ${pixel(spot(props.guess)[1] - 9)}l9 9l-9 9l-9 -9Z`}
            />
          ) : null}
        </>
      ) : null}
    </Drawing>
  );
}
