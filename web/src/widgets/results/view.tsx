import { useRef, useState } from "preact/hooks";
import { linear, log, pixel, type Scale } from "../../charts/scales.ts";
import { Choose } from "../../controls/controls.tsx";
import { Figure } from "../../controls/figure.tsx";
import { number, several } from "../../controls/format.ts";
import { type Claim, type Results as Data, sampleOf, sampleText } from "../../numbers/figures.ts";
import { useResults } from "../../numbers/store.ts";
import { useWidget } from "../../state/widget.ts";
import { fields, tables, tasks } from "./state.ts";
import { type Row, type Table, tableOf } from "./rows.ts";

const width = 300;
const height = 30;
const middle = height / 2;

// The models' range, wide enough for their marks; values beyond it are named at the edge.
function scaleOf(table: Table): Scale {
  if (!table.log) return linear(-1, 1, 12, width - 12, 5);
  const values = table.rows.flatMap((row) => [
    ...row.values,
    ...(row.published ? [row.published.mean] : []),
  ]);
  const positive = values.filter((value) => value > 0);
  const near = table.baselines
    .map((item) => item.value)
    .filter((value) => value > Math.min(...positive) / 30 && value < Math.max(...positive) * 30);
  const all = [...positive, ...near];
  return log(Math.min(...all) / 1.6, Math.max(...all) * 1.6, 12, width - 12);
}

const Diamond = ({ x }: { x: number }) => (
  <path class="hollow c-published" d={`M${pixel(x)} ${middle - 7}l6 7l-6 7l-6 -7Z`} />
);

function Strip({ row, scale, table }: { row: Row; scale: Scale; table: Table }) {
  const mean = sampleOf(row.values).mean;
  const published = row.published;
  const spread = published?.deviation ?? 0;
  const low = published ? published.mean - spread : 0;
  return (
    <svg viewBox={`0 0 ${width} ${height}`} aria-hidden="true" class="strip">
      {scale.ticks.map((tick) => (
        <path class="grid-line" d={`M${pixel(scale(tick))} 0V${height}`} />
      ))}
      {table.baselines.map((item) =>
        item.value >= scale.from && item.value <= scale.to ? (
          <path class="line thin dashed c-nomodel" d={`M${pixel(scale(item.value))} 0V${height}`} />
        ) : null,
      )}
      {published ? (
        <>
          {spread > 0 ? (
            <path
              class="line thin c-published"
              d={`M${pixel(scale(Math.max(low, scale.from)))} ${middle}H${pixel(scale(published.mean + spread))}`}
            />
          ) : null}
          <Diamond x={scale(published.mean)} />
        </>
      ) : null}
      {row.values.map((value) => (
        <circle class="dot c-ink" cx={pixel(scale(value))} cy={middle} r="4.5" />
      ))}
      <path class="line c-ink" d={`M${pixel(scale(mean))} ${middle - 11}v22`} />
    </svg>
  );
}

const claimTable = (claim: Claim, data: Data) => {
  const main = data.experiments.find((item) => item.name === "main");
  const names = main?.columns[0]?.arms.map((arm) => arm.name) ?? [];
  return names.includes(claim.better) && names.includes(claim.worse) ? "main" : "controls";
};

// Welch's t of two samples.
function welch(a: readonly number[], b: readonly number[]): number {
  const [one, other] = [sampleOf(a), sampleOf(b)];
  if (one.deviation === null || other.deviation === null) return NaN;
  return (
    (one.mean - other.mean) /
    (one.deviation ** 2 / a.length + other.deviation ** 2 / b.length) ** 0.5
  );
}

const testText = (test: { t: number; p: number } | null) =>
  test ? `t = ${number(test.t)}, p = ${number(test.p, 2)}` : "nothing to test";

export function Results() {
  const widget = useWidget("results", fields);
  const s = widget.state;
  const data = useResults();
  const table = tableOf(data, s.table, s.task, s.set as "best" | "exact");
  const scale = scaleOf(table);
  const mean = (row: Row) => sampleOf(row.values).mean;
  const rows = s.sort === "given" ? table.rows : [...table.rows].sort((a, b) => mean(a) - mean(b));
  const [chosen, setChosen] = useState<string | null>(null);
  const list = useRef<HTMLDivElement>(null);
  // Two tables have one way of measuring.
  const hasSets = table.log && s.table !== "norms";
  const asked = s.claim === "none" ? undefined : data.claims[Number(s.claim) - 1];
  // A claim marks rows of its own table and task alone.
  const claim =
    asked && claimTable(asked, data) === s.table && asked.column === table.task ? asked : undefined;
  const marked = claim ? [claim.better, claim.worse] : [];
  const best = [...table.rows].sort((a, b) => mean(a) - mean(b))[0];
  const rule = [...table.baselines].sort((a, b) => a.value - b.value)[0];
  const ruleWins = table.log && s.table !== "norms" && rule && best && rule.value < mean(best);
  const row = rows.find((item) => item.name === chosen) ?? rows.find((item) => item === best);
  const told = row
    ? `${row.label}: ${row.values.map((value) => number(value, 4)).join(", ")}; mean ${sampleText(sampleOf(row.values))}${row.published ? `, published ${sampleText(row.published)}` : ""}.`
    : "";
  const where = tasks[table.task] ?? table.task;
  const next = [...table.rows].sort((a, b) => mean(a) - mean(b))[1];
  const t = best && next ? welch(best.values, next.values) : NaN;
  const seeds = best ? several(best.values.length, "seed") : "";
  // |t| below 4.3 is p > 0.05 for two degrees of freedom, the fewest that Welch's test can have here.
  const separated = Number.isNaN(t)
    ? ""
    : Math.abs(t) < (best!.values.length > 3 ? 2.2 : 4.3)
      ? `; ${seeds} cannot tell it from the next`
      : `, clear of the next (t = ${number(Math.abs(t))})`;
  const caption = !table.log
    ? `Cosine with −x after training on ${where}.`
    : s.table === "norms"
      ? "Copying the input keeps every norm; the right answer does not."
      : ruleWins
        ? `On ${where} a predictor without a model (${rule.name}) is better than every model here.`
        : `On ${where} ${best?.label ?? "no row"} has the lowest mean${separated}.`;
  const keys = (event: KeyboardEvent) => {
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const buttons = [...(list.current?.querySelectorAll("button") ?? [])];
    const at = buttons.indexOf(document.activeElement as HTMLButtonElement);
    if (!way || at < 0) return;
    event.preventDefault();
    buttons[Math.min(buttons.length - 1, Math.max(0, at + way))]?.focus();
  };
  const offered = { ...fields, task: { ...fields.task, values: table.tasks } };
  const shown = { ...widget, fields: offered, state: { ...s, task: table.task } } as typeof widget;
  return (
    <Figure
      widget={widget}
      caption={caption}
      sentence={told}
      table={() => ({
        caption: `${tables[s.table]}, ${where}: ${table.quantity}`,
        head: ["row", "published", "mean", "seeds"],
        rows: [
          ...rows.map((item) => [
            item.label,
            item.published ? sampleText(item.published) : "",
            sampleText(sampleOf(item.values)),
            item.values.map((value) => number(value, 4)).join(", "),
          ]),
          ...table.baselines.map((item) => [
            `no model: ${item.name}`,
            "",
            number(item.value, 4),
            "",
          ]),
        ],
      })}
      controls={["table", <Choose widget={shown} name="task" as="select" />]}
      more={[...(hasSets ? (["set"] as const) : []), "sort"]}
      main={
        <div class="table-of-runs">
          <p class="legend" aria-hidden="true">
            <span class="c-published">◇ published</span>{" "}
            <span class="c-ink">● each seed of ours</span> <span class="c-ink">❘ mean</span>{" "}
            <span class="c-nomodel">┆ no model</span>
          </p>
          <div
            class="rows"
            ref={list}
            onKeyDown={keys}
            role="group"
            aria-label={`${table.quantity}, one row a model`}
          >
            {table.baselines.map((item) => (
              <div class="row baseline">
                <span class="row-label">no model: {item.name}</span>
                <BaselineStrip value={item.value} scale={scale} />
              </div>
            ))}
            {rows.map((item, index) => (
              <button
                type="button"
                class={`row${marked.includes(item.name) ? " marked" : ""}`}
                tabIndex={(row ? item === row : index === 0) ? 0 : -1}
                aria-pressed={item === row}
                aria-label={`${item.label}: mean ${number(mean(item))}`}
                onClick={() => setChosen(item.name)}
                onFocus={() => setChosen(item.name)}
              >
                <span class="row-label">
                  {item.label}
                  {claim?.better === item.name ? " ← said to be better" : ""}
                </span>
                <Strip row={item} scale={scale} table={table} />
              </button>
            ))}
            <div class="row axis-row" aria-hidden="true">
              <span class="row-label">{table.quantity}</span>
              <svg viewBox={`0 0 ${width} 22`} class="strip">
                {scale.ticks.map((tick) => (
                  <text x={pixel(scale(tick))} y="15" text-anchor="middle">
                    {number(tick)}
                  </text>
                ))}
              </svg>
            </div>
          </div>
          {row ? <p class="detail">{row.detail}</p> : null}
        </div>
      }
    >
      <div class="claim-list" role="group" aria-label="The claims, tested">
        <p class="legend">
          The paper's claims, each by Welch's test of three seeds; p is not corrected for their
          number.
        </p>
        {data.claims.map((item, index) => (
          <button
            type="button"
            class={`claim-button ${item.verdict}`}
            aria-pressed={claim === item}
            onClick={() =>
              widget.set(
                claim === item
                  ? { claim: "none" }
                  : {
                      claim: String(index + 1),
                      table: claimTable(item, data),
                      task: item.column,
                    },
              )
            }
          >
            <span>{item.claim}</span>
            <span class="verdict">{item.verdict}</span>
            <small>
              {item.measured_ratio === null ? "" : `${number(item.measured_ratio)} ×, `}
              {testText(item.measured_test)}
              {item.published_ratio === null
                ? ""
                : ` · published ${number(item.published_ratio)} ×`}
            </small>
          </button>
        ))}
      </div>
    </Figure>
  );
}

function BaselineStrip({ value, scale }: { value: number; scale: Scale }) {
  const inside = value >= scale.from && value <= scale.to;
  const x = inside ? scale(value) : value < scale.from ? 8 : width - 8;
  const right = x > width * 0.62;
  return (
    <svg viewBox={`0 0 ${width} 20`} class="strip" aria-hidden="true">
      {inside ? <path class="line dashed c-nomodel" d={`M${pixel(x)} 0V20`} /> : null}
      <text
        class="label c-nomodel"
        x={pixel(right ? x - 6 : x + 6)}
        y="14"
        text-anchor={right ? "end" : "start"}
      >
        {inside
          ? number(value, 4)
          : value < scale.from
            ? `◂ ${number(value, 4)}`
            : `${number(value, 4)} ▸`}
      </text>
    </svg>
  );
}
