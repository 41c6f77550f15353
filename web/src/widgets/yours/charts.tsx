// Curves of runs: over steps, over operators.
import { across, Axes, plotArea, upward } from "../../charts/axes.tsx";
import { Drawing } from "../../charts/drawing.tsx";
import { linear, log, path, pixel, type Scale, spread } from "../../charts/scales.ts";
import { number } from "../../controls/format.ts";

export interface Series {
  name: string;
  x: ArrayLike<number>;
  y: ArrayLike<number>;
  class: string;
  label?: string; // at the line's end
}

const r = plotArea(400, 270, { left: 66, right: 46, top: 32 });

// Numbers that differ from 1, or from each other, only in late digits are written as such.
function offsets(low: number, high: number): (value: number) => string {
  if (high - low > 5e-3 * Math.max(Math.abs(low), Math.abs(high))) return (value) => number(value);
  if (Math.abs(low - 1) > 0.1) return (value) => number(value, 6);
  return (value) =>
    Math.abs(value - 1) < 1e-12
      ? "1"
      : `1 ${value < 1 ? "−" : "+"} ${number(Math.abs(value - 1), 2)}`;
}
const most = 600; // points of a line; beyond that every k-th is drawn

const thin = (values: ArrayLike<number>): number[] => {
  const every = Math.ceil(values.length / most);
  return Array.from(values).filter((_, i) => i % every === 0 || i === values.length - 1);
};

function extent(values: readonly number[], isLog: boolean): [number, number] {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values)
    if (Number.isFinite(value) && (!isLog || value > 0)) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  if (low > high) return isLog ? [0.1, 1] : [0, 1];
  if (isLog) return [low / 1.2, high * 1.2];
  return low === high ? [low - 0.5, high + 0.5] : [low, high];
}

export function Chart(props: {
  title: string;
  xLabel: string;
  series: readonly Series[];
  log?: boolean;
  dots?: boolean; // discrete things: operators, blocks
  yRange?: readonly [number, number];
}) {
  const isLog = props.log ?? false;
  const lines = props.series.map((item) => ({ ...item, x: thin(item.x), y: thin(item.y) }));
  const [x0, x1] = extent(
    lines.flatMap((item) => item.x),
    false,
  );
  const [y0, y1] =
    props.yRange ??
    extent(
      lines.flatMap((item) => item.y),
      isLog,
    );
  const around = props.dots ? 0.5 : 0;
  const scale: Scale = linear(x0 - around, x1 + around, ...across(r), 4);
  const x = props.dots
    ? Object.assign(scale, { ticks: scale.ticks.filter((tick) => Number.isInteger(tick)) })
    : scale;
  const y: Scale = isLog ? log(y0, y1, ...upward(r)) : linear(y0, y1, ...upward(r));
  const ends = spread(
    lines.map((item) => y(item.y[item.y.length - 1] ?? y0)),
    13,
    r.top,
    r.height - r.bottom,
  );
  const last = lines.map(
    (item) => `${item.name} ends at ${number(item.y[item.y.length - 1] ?? NaN)}`,
  );
  return (
    <Drawing
      width={r.width}
      height={r.height}
      label={`${props.title} against ${props.xLabel}: ${last.slice(0, 6).join(", ") || "nothing"}.`}
    >
      <Axes
        area={r}
        x={x}
        y={y}
        xLabel={props.xLabel}
        yLabel={props.title}
        xText={(value) => number(value, 5)}
        yText={isLog ? number : offsets(y0, y1)}
      >
        {lines.map((item) =>
          props.dots ? (
            <g data-points={item.x.length}>
              {item.x.map((at, i) =>
                Number.isFinite(y(item.y[i]!)) ? (
                  <circle
                    class={`${item.class.includes("dotted") ? "hollow" : "dot"} ${item.class}`}
                    cx={pixel(x(at))}
                    cy={pixel(y(item.y[i]!))}
                    r="4"
                  />
                ) : null,
              )}
            </g>
          ) : (
            <>
              <path
                class={`line ${item.class}`}
                data-points={item.x.length}
                d={path(item.x, item.y, x, y)}
              />
              {item.label ? (
                <text
                  class={`label ${item.class.split(" ")[0] === "thin" ? item.class.split(" ")[1] : item.class.split(" ")[0]}`}
                  x={r.width - r.right + 4}
                  y={pixel(ends[lines.indexOf(item)]! + 4)}
                >
                  {item.label}
                </text>
              ) : null}
            </>
          ),
        )}
      </Axes>
    </Drawing>
  );
}
