// Curves of runs: over steps, over operators.
import { across, Axes, plotArea, upward } from "../../charts/axes.tsx";
import { Drawing } from "../../charts/drawing.tsx";
import { linear, log, path, type Scale } from "../../charts/scales.ts";
import { number } from "../../controls/format.ts";

export interface Series {
  name: string;
  x: ArrayLike<number>;
  y: ArrayLike<number>;
  class: string;
}

const r = plotArea(400, 270, { left: 52, top: 32 });
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
  const x: Scale = linear(x0, x1, ...across(r), 4);
  const y: Scale = isLog ? log(y0, y1, ...upward(r)) : linear(y0, y1, ...upward(r));
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
      >
        {lines.map((item) => (
          <path
            class={`line ${item.class}`}
            data-points={item.x.length}
            d={path(item.x, item.y, x, y)}
          />
        ))}
      </Axes>
    </Drawing>
  );
}
