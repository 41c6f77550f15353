// The discovery: operator yes or no, start small or identity, twelve runs each.
import { across, Axes, Fact, plotArea, upward } from "../../charts/axes.tsx";
import { Drawing } from "../../charts/drawing.tsx";
import { linear, log, pixel } from "../../charts/scales.ts";
import { Choose } from "../../controls/controls.tsx";
import { Figure } from "../../controls/figure.tsx";
import { number } from "../../controls/format.ts";
import { pageResults } from "../../numbers/store.ts";
import { useWidget } from "../../state/widget.ts";
import { cells, fields } from "./state.ts";

const r = plotArea(430, 350, { left: 50, right: 12, top: 30, bottom: 62 });
const x = Object.assign(linear(-0.5, 3.5, ...across(r)), { ticks: [] as number[] });

const median = (values: readonly number[]) => {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length / 2;
  return (sorted[Math.ceil(half) - 1]! + sorted[Math.floor(half)]!) / 2;
};
const times = (factor: number) => `${number(factor, 2)} times`;

export function Start() {
  const widget = useWidget("start", fields);
  const { task } = widget.state;
  const { experiments } = pageResults().results;
  const column = (name: string) =>
    experiments.find((item) => item.name === name)!.columns.find((item) => item.name === task)!;
  const arms = column("start").arms;
  const values = (name: string) => arms.find((arm) => arm.name === name)!.best_values;
  const published = Math.min(
    ...column("main").arms.flatMap((arm) =>
      arm.published && arm.published.mean > 0 ? [arm.published.mean] : [],
    ),
  );
  const middle = cells.map(({ arm }) => median(values(arm)));
  const start = middle[2]! / middle[0]!;
  const operator = middle[0]! / middle[1]!;
  const all = [...cells.flatMap(({ arm }) => values(arm)), published];
  const y = log(Math.min(...all) / 1.8, Math.max(...all) * 1.8, ...upward(r));
  const where = fields.task.names[task]!;
  const begin = where.startsWith("near") ? where.replace("near", "Near") : `On ${where}`;
  const caption = `${begin}, the small start lowers the median error ${times(start)}. The operator then ${
    operator > 1.05
      ? `lowers it ${times(operator)} more`
      : operator < 0.95
        ? `raises it ${times(1 / operator)}`
        : "changes nothing"
  }.`;
  return (
    <Figure
      widget={widget}
      caption={caption}
      sentence={caption}
      table={() => ({
        caption: `Best validation MSE on ${where}, twelve seeds`,
        head: ["cell", "median", "seeds"],
        rows: cells.map(({ arm, operator: name, start: begin }, i) => [
          `${name}, ${begin}`,
          number(middle[i]!),
          values(arm)
            .map((value) => number(value))
            .join(", "),
        ]),
      })}
      main={
        <Drawing width={r.width} height={r.height} class="main" label={caption}>
          <rect
            class="disc"
            x={r.left}
            y={r.top}
            width={pixel((r.width - r.left - r.right) / 2)}
            height={r.height - r.top - r.bottom}
          />
          <Axes area={r} x={x} y={y} xLabel="" yLabel="best validation MSE, one dot a seed">
            <path
              class="line thin dashed c-published"
              d={`M${r.left} ${pixel(y(published))}H${r.width - r.right}`}
            />
            <text
              class="label c-published"
              x={r.width - r.right}
              y={pixel(y(published) - 6)}
              text-anchor="end"
            >
              best published
            </text>
            {cells.map(({ arm, operator: name, colour }, i) => (
              <>
                {values(arm).map((value, k) => (
                  <circle
                    class={`dot ${colour}`}
                    cx={pixel(x(i + (((k * 5) % 12) - 5.5) * 0.045))}
                    cy={pixel(y(value))}
                    r="5"
                  />
                ))}
                <path
                  class="line c-ink"
                  d={`M${pixel(x(i - 0.34))} ${pixel(y(middle[i]!))}H${pixel(x(i + 0.34))}`}
                />
                <text x={pixel(x(i))} y={r.height - r.bottom + 18} text-anchor="middle">
                  {name.replace("EΔ’s ", "")}
                </text>
              </>
            ))}
            <text class="label c-ink" x={pixel(x(0.5))} y={r.height - 18} text-anchor="middle">
              small start
            </text>
            <text class="label c-ink" x={pixel(x(2.5))} y={r.height - 18} text-anchor="middle">
              identity start
            </text>
          </Axes>
        </Drawing>
      }
      controls={[<Choose widget={widget} name="task" as="radio" />]}
    >
      <dl class="readout">
        <div class="fact head">
          <dt>twelve seeds each</dt>
          <dd>median</dd>
        </div>
        {cells.map(({ operator: name, start: begin }, i) => (
          <Fact name={`${name}, ${begin}`} value={number(middle[i]!)} />
        ))}
        <Fact name="best published" value={number(published)} />
      </dl>
    </Figure>
  );
}
