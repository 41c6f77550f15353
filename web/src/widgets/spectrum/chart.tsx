import { across, Axes, plotArea, upward, vertical } from "../../charts/axes.tsx";
import { number } from "../../controls/format.ts";
import { linear, path, pixel, type Scale } from "../../charts/scales.ts";
import type { Spectrum } from "./solve.ts";

export const r = plotArea(430, 320, { left: 44, top: 34 });

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

// Above the axis' end the line has a gap.
const cut = (values: readonly number[], y: Scale) =>
  values.map((value) => (value > y.to ? NaN : value));

// Where a line leaves the plot: how high it rises there, and how wide it is.
function spike(s: readonly number[], rho: readonly number[], y: Scale) {
  const above = rho.flatMap((value, i) => (value > y.to ? [i] : []));
  if (!above.length) return null;
  return { from: s[above[0]!]!, to: s[above[above.length - 1]!]!, top: Math.max(...rho) };
}

export function Density(props: {
  value: Spectrum;
  history: readonly Spectrum[];
  reader: number | null;
}) {
  const { value } = props;
  const { x, y } = scales(value);
  const total = value.values.reduce((sum, count) => sum + count, 0);
  const peak = spike(value.s, value.rho, y);
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
      <path
        class="line c-rotation"
        data-curve="theory"
        d={path(value.s, cut(value.rho, y), x, y)}
      />
      {value.sampled ? (
        <path
          class="line dashed c-ink"
          data-curve="samples"
          d={path(value.s, cut(value.sampled.rho, y), x, y)}
        />
      ) : null}
      {value.printed ? (
        <path
          class="line dashed c-reflection"
          data-curve="printed"
          d={path(value.s, cut(value.printed, y), x, y)}
        />
      ) : null}
      {peak ? (
        <>
          <path
            class="break"
            d={`M${pixel(x(peak.from) - 5)} ${r.top + 7}l10 -6m-10 10l10 -6M${pixel(x(peak.to) - 5)} ${r.top + 7}l10 -6m-10 10l10 -6`}
          />
          <text class="label c-rotation" x={pixel(x(peak.to) + 10)} y={r.top + 8}>
            rises to {number(peak.top)}
          </text>
        </>
      ) : null}
      {props.reader !== null ? <path class="reader" d={vertical(r, x(props.reader))} /> : null}
    </Axes>
  );
}
