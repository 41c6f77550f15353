// The section that answers the title: each connection, what it promises, whether that holds, whether it helps.
import type { Trained } from "../numbers/page_data.ts";
import { type Results, sampleOf } from "../numbers/figures.ts";
import { fixed, number } from "../controls/format.ts";
import { N } from "./parts.tsx";

const mean = (values: readonly number[]) => sampleOf(values).mean;

interface Row {
  name: string;
  promise: string;
  holds: string;
  kind: "holds" | "wrong" | "open";
  vectors?: string; // arm of the paper's main table
  text?: string; // arm of the language models
  puzzles?: string; // arm of the sudokus
  step?: string;
}

const rows: readonly Row[] = [
  {
    name: "additive",
    promise: "carries the state unchanged",
    holds: "exactly",
    kind: "holds",
    vectors: "gpt",
    text: "additive",
    puzzles: "none",
    step: "additive",
  },
  {
    name: "hc",
    promise: "more streams, mixed freely",
    holds: "stable at 12 layers",
    kind: "holds",
    text: "hc",
    step: "hc",
  },
  {
    name: "mhc",
    promise: "keeps the mean of the streams",
    holds: "and nothing else, unless it stays near the identity",
    kind: "holds",
    vectors: "mhc",
    text: "mhc",
    puzzles: "sinkhorn",
    step: "mhc",
  },
  {
    name: "mhc_lite",
    promise: "exact sums",
    holds: "exactly",
    kind: "holds",
    text: "mhc_lite",
    step: "mhc_lite",
  },
  {
    name: "shc",
    promise: "does not degenerate to the identity",
    holds: "it stays near the identity",
    kind: "wrong",
    text: "shc",
    step: "shc",
  },
  {
    name: "jpmhc",
    promise: "an orthogonal mixer",
    holds: "only for small weights",
    kind: "open",
    vectors: "jpmhc",
    puzzles: "cayley",
  },
  {
    name: "edelta",
    promise: "a rotation or a reflection",
    holds: "at the ends of its gate",
    kind: "open",
    vectors: "edelta",
    puzzles: "edelta",
    step: "edelta",
  },
  {
    name: "ddl",
    promise: "erases what is outdated",
    holds: "singular at its start",
    kind: "open",
    vectors: "ddl",
    step: "ddl",
  },
];

// A bar from the middle: to the right it is better than the plain residual.
const Lead = ({ part }: { part: number }) => {
  const width = Math.min(1, Math.abs(part)) * 28;
  return (
    <svg viewBox="0 0 60 8" class="lead-bar" aria-hidden="true">
      <path class="axis-line" d="M30 0V8" />
      <rect
        class={part >= 0 ? "better" : "worse"}
        x={part >= 0 ? 30 : 30 - width}
        y="1.5"
        width={Math.max(0.01, width)}
        height="5"
      />
    </svg>
  );
};

export function Answer(props: {
  number: number;
  results: Results;
  trained: Trained;
  commits: Record<string, string>;
}) {
  const { trained } = props;
  const arms = props.results.experiments
    .find((item) => item.name === "main")!
    .columns.find((column) => column.name === "gyroscope")!.arms;
  const error = (name: string) => {
    const arm = arms.find((item) => item.name === name);
    if (!arm) throw new Error(`the main table has no arm ${name}`);
    return mean(arm.best_values);
  };
  const loss = (name: string) => mean(trained.language[name]!);
  const plain = loss("additive");
  const solved = (name: string) => mean(trained.sudoku[name]!);
  const small = mean(
    props.results.experiments
      .find((item) => item.name === "start")!
      .columns.find((column) => column.name === "gyroscope")!
      .arms.find((arm) => arm.name === "none_small")!.best_values,
  );
  const gpt = error("gpt");
  const vectors = (value: number) => (
    <>
      {number(value)}
      <Lead part={(gpt - value) / gpt} />
    </>
  );
  const text = (value: number) => (
    <>
      {fixed(value, 3)}
      <Lead part={(plain - value) / 0.05} />
    </>
  );
  const puzzles = (value: number) => (
    <>
      {fixed(100 * value, 0)}%
      <Lead part={value - solved("none")} />
    </>
  );
  const none = <span class="none">not run</span>;
  const files = ["results", "start", "explorer"].map((name) => `docs/results/${name}.json`);
  return (
    <section id="answer" aria-labelledby="answer-title">
      <h2 id="answer-title">
        <span class="section-number">{props.number}</span>So what replaces it?
      </h2>
      <div class="prose">
        <p>
          Here is every connection of this page, with what its paper promises and what we measured.
          The bars compare with the plain residual: to the right is better.
        </p>
      </div>
      <div class="answer" tabIndex={0} role="region" aria-label="All connections, compared">
        <table>
          <thead>
            <tr>
              <th scope="col">connection</th>
              <th scope="col">it promises</th>
              <th scope="col">does that hold?</th>
              <th scope="col">
                vectors <small>gyroscope, error</small>
              </th>
              <th scope="col">
                text <small>loss, nats, 2000 steps</small>
              </th>
              <th scope="col">
                puzzles <small>sudokus solved</small>
              </th>
              <th scope="col">
                a step <small>time</small>
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr>
                <th scope="row">
                  <N is={row.name} />
                </th>
                <td data-head="it promises">{row.promise}</td>
                <td data-head="does that hold?" class={`holding ${row.kind}`}>
                  {row.holds}
                </td>
                <td data-head="vectors">{row.vectors ? vectors(error(row.vectors)) : none}</td>
                <td data-head="text">{row.text ? text(loss(row.text)) : none}</td>
                <td data-head="puzzles">{row.puzzles ? puzzles(solved(row.puzzles)) : none}</td>
                <td data-head="a step">
                  {row.step ? `${number(trained.step[row.step]!)}×` : none}
                </td>
              </tr>
            ))}
            <tr class="control-row">
              <th scope="row">the control</th>
              <td colSpan={2} data-head="it is">
                the same model without the operator
              </td>
              <td data-head="vectors">{vectors(small)}</td>
              <td data-head="text">{text(loss("identity"))}</td>
              <td data-head="puzzles">{puzzles(solved("none, equal time"))}</td>
              <td data-head="a step">–</td>
            </tr>
          </tbody>
        </table>
      </div>
      <div class="prose">
        <p>
          The last row decides. On vectors it is a plain sum whose linear maps start small. On text
          it is four streams whose mixer is fixed to the identity: they do as well as any mixer, so
          it is the streams that lower the loss, at equal steps. On puzzles it is no mixer for the
          same time instead of the same number of steps.
        </p>
        <p>
          So what replaces <span class="m">x + F(x)</span>? In our tests nothing has to. The
          operators keep most of what they promise, and none of it earns the gain. For a fixed
          budget of time use the plain residual; for a fixed number of steps use four streams; and
          start small.
        </p>
        <p class="foot">
          Text: 24.6 million parameters, 12 layers, books, three seeds. Puzzles: recursive models of
          400,000 parameters, three seeds. Vectors: the EΔ paper’s gyroscope task at its size, three
          seeds (the control: twelve). Time of a step: 124 million parameters. Data:{" "}
          {files.map((file) => `${file} (commit ${props.commits[file]})`).join(", ")}.
        </p>
      </div>
    </section>
  );
}
