import { across, Axes, plotArea, upward, vertical } from "../../charts/axes.tsx";
import { linear, path, pixel, type Scale } from "../../charts/scales.ts";
import type { Spectrum } from "./solve.ts";

export const r = plotArea(440, 320, { left: 44, top: 34 });

// The vertical axis ends above the bulk; a spike at 0 is cut.
export function scales(value: Spectrum): { x: Scale; y: Scale } {
  const reach = value.bins * value.values.length;
  const total = value.values.reduce((sum, count) => sum + count, 0) || 1;
  const bars = value.values.map((count) => count / (total * value.bins));
  const bulk = [
    ...value.rho.filter((_, i) => value.s[i]! > 0.12 * reach),
    ...bars.filter((_, i) => i * value.bins > 0.12 * reach),
  ];
  const top = Math.max(0.1, Math.min(Math.max(...value.rho, ...bars), 1.8 * Math.max(...bulk)));
  return { x: linear(0, reach, ...across(r)), y: linear(0, top * 1.08, ...upward(r)) };
}

const cut = (values: readonly number[], y: Scale) => values.map((value) => Math.min(value, y.to));

export function Density(props: {
  value: Spectrum;
  history: readonly Spectrum[];
  reader: number | null;
}) {
  const { value } = props;
  const { x, y } = scales(value);
  const total = value.values.reduce((sum, count) => sum + count, 0);
  return (
    <Axes area={r} x={x} y={y} xLabel="singular value s" yLabel="density">
      {total > 0 ? (
        <path
          class="histogram"
          d={value.values
            .map((count, i) => {
              const height = Math.min(count / (total * value.bins), y.to);
              return `M${pixel(x(i * value.bins))} ${pixel(y(0))}V${pixel(y(height))}H${pixel(x((i + 1) * value.bins))}V${pixel(y(0))}Z`;
            })
            .join("")}
        />
      ) : null}
      {props.history.map((old) => (
        <path class="line thin c-quiet faint" d={path(old.s, cut(old.rho, y), x, y)} />
      ))}
      {value.printed ? (
        <path class="line dashed c-reflection" d={path(value.s, cut(value.printed, y), x, y)} />
      ) : null}
      <path class="line c-rotation" d={path(value.s, cut(value.rho, y), x, y)} />
      {props.reader !== null ? <path class="reader" d={vertical(r, x(props.reader))} /> : null}
    </Axes>
  );
}
