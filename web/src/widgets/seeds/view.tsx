import { useRef } from "preact/hooks";
import { across, Axes, Fact, plotArea, upward } from "../../charts/axes.tsx";
import { linear, log, pixel } from "../../charts/scales.ts";
import { Choose } from "../../controls/controls.tsx";
import { Figure } from "../../controls/figure.tsx";
import { number } from "../../controls/format.ts";
import { type GateRun, lostAbove } from "../../numbers/figures.ts";
import { pageResults } from "../../numbers/store.ts";
import { useWidget } from "../../state/widget.ts";
import { fields } from "./state.ts";

const r = plotArea(440, 340, { left: 50, top: 32 });
const y = log(1e-4, 1e-1, ...upward(r));
const x = linear(-0.5, 3.5, ...across(r));
const weights = [0, 0.05, 0.1, 0.2];

// The keys of gates.json leave defaults out: λ is then 0.1, the gate plain, the start the identity.
const weight = (run: GateRun) => run.config.gate_weight ?? 0.1;
function variant(run: GateRun): string {
  const c = run.config;
  if (c["layers"] !== 6) return "shape";
  if (c["hidden_ratio"] !== undefined) return "hidden";
  if (c["pool"] === "causal") return "causal";
  if (c["init"] !== "reference") return "identity";
  return c["gate"] === "entropy" ? "run" : "plain";
}
const repetition = (run: GateRun) =>
  run.reproduction.startsWith("twelve")
    ? "twelve"
    : run.reproduction.includes("19e5c58")
      ? "second"
      : "third";

const reflections = (run: GateRun) => run.gamma.filter((gamma) => gamma < 0.1).length;
const rotations = (run: GateRun) => run.gamma.filter((gamma) => gamma > 0.9).length;
const kind = (run: GateRun) =>
  reflections(run) >= 2
    ? "reflection"
    : rotations(run) >= 0.9 * run.gamma.length
      ? "rotation"
      : "between";

function Mark({ run, at }: { run: GateRun; at: readonly [number, number] }) {
  const [px, py] = [pixel(at[0]), pixel(at[1])];
  if (kind(run) === "reflection")
    return <path class="dot c-reflection" d={`M${px} ${pixel(at[1] - 6)}l6 6l-6 6l-6 -6Z`} />;
  if (kind(run) === "rotation") return <circle class="dot c-rotation" cx={px} cy={py} r="4.5" />;
  return (
    <rect class="dot c-quiet" x={pixel(at[0] - 4)} y={pixel(at[1] - 4)} width="8" height="8" />
  );
}

export function Seeds() {
  const widget = useWidget("seeds", fields);
  const s = widget.state;
  const all = pageResults().gates;
  const shown = all
    .map((run, index) => ({ run, index }))
    .filter(({ run }) => s.start === "all" || variant(run) === s.start)
    .filter(({ run }) => s.rep === "all" || repetition(run) === s.rep)
    .filter(({ run }) => s.lambda === "all" || weight(run) === Number(s.lambda))
    .sort((a, b) => weight(a.run) - weight(b.run) || a.run.best - b.run.best);
  const rank = new Map<number, number>();
  const dots = shown.map(({ run, index }) => {
    const column = weights.indexOf(weight(run));
    const order = rank.get(column) ?? 0;
    rank.set(column, order + 1);
    const aside = (((order * 5) % 9) - 4) * 0.085;
    return { run, index, at: [x(column + aside), y(run.best)] as const };
  });
  const chosen = all[Number(s.run)];
  const svg = useRef<SVGSVGElement>(null);
  const withLoss = shown.filter(({ run }) => weight(run) > 0);
  const lost = withLoss.filter(({ run }) => run.best > lostAbove).length;
  const label = (run: GateRun) =>
    `λ ${weight(run)}, ${run.run}, ${run.reproduction}: best ${number(run.best)}, ${reflections(run)} of ${run.gamma.length} gates at reflection`;
  const sentence = chosen
    ? `${label(chosen)}; at step 200 its error was ${number(chosen.step_200)}.`
    : `${shown.length} runs; of the ${withLoss.length} with the gate loss ${lost} end above ${number(lostAbove)}.`;
  const move = (event: KeyboardEvent) => {
    const way = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    if (!way) return;
    event.preventDefault();
    const at = dots.findIndex((dot) => String(dot.index) === s.run);
    const next = dots[Math.min(dots.length - 1, Math.max(0, at + way))];
    if (!next) return;
    widget.set({ run: String(next.index) });
    svg.current?.querySelector<SVGElement>(`[data-run="${next.index}"]`)?.focus();
  };
  const nearest = (event: MouseEvent) => {
    const matrix = svg.current?.getScreenCTM();
    if (!matrix) return;
    const p = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    let best: (typeof dots)[number] | undefined;
    let least = 30 ** 2;
    for (const dot of dots) {
      const distance = (dot.at[0] - p.x) ** 2 + (dot.at[1] - p.y) ** 2;
      if (distance < least) [best, least] = [dot, distance];
    }
    if (best) widget.set({ run: String(best.index) });
  };
  const zero = zeroCost();
  const first = dots.findIndex((dot) => String(dot.index) === s.run);
  return (
    <Figure
      widget={widget}
      caption={
        withLoss.length && lost
          ? `With the gate loss ${lost} of ${withLoss.length} runs are lost, and most of those have gates at the reflection (◆).`
          : "None of these runs is lost."
      }
      sentence={sentence}
      table={() => ({
        caption: "Runs of EΔ on gyroscope",
        head: [
          "run",
          "λ",
          "repetition",
          "best",
          "at step 200",
          "gates at reflection",
          "gates at rotation",
        ],
        rows: shown.map(({ run }) => [
          run.run,
          weight(run),
          run.reproduction,
          number(run.best),
          number(run.step_200),
          reflections(run),
          rotations(run),
        ]),
      })}
      controls={[<Choose widget={widget} name="lambda" as="radio" />]}
      more={[<Choose widget={widget} name="rep" as="select" />, "start"]}
      main={
        <div class="drawing main">
          <svg
            ref={svg}
            viewBox={`0 0 ${r.width} ${r.height}`}
            role="group"
            aria-label={`Best validation MSE against λ, one mark a run. ${sentence}`}
            onKeyDown={move}
            onClick={nearest}
          >
            <Axes
              area={r}
              x={Object.assign(x.bind(null), { ...x, ticks: [0, 1, 2, 3] })}
              y={y}
              xLabel="weight λ of the gate loss"
              yLabel="best validation MSE"
              xText={(value) => String(weights[value])}
            />
            <path
              class="line thin dashed c-quiet"
              d={`M${r.left} ${pixel(y(lostAbove))}H${r.width - r.right}`}
            />
            <text class="label c-quiet" x={r.left + 4} y={pixel(y(lostAbove) - 5)}>
              lost above {number(lostAbove)}
            </text>
            {dots.map((dot, index) => (
              <g
                class="pick"
                role="button"
                tabindex={index === Math.max(0, first) ? 0 : -1}
                aria-pressed={String(dot.index) === s.run}
                aria-label={label(dot.run)}
                data-run={dot.index}
                onFocus={() => {
                  if (String(dot.index) !== s.run) widget.set({ run: String(dot.index) });
                }}
              >
                <circle class="pick-ring" cx={pixel(dot.at[0])} cy={pixel(dot.at[1])} r="9" />
                <Mark run={dot.run} at={dot.at} />
              </g>
            ))}
          </svg>
        </div>
      }
    >
      <p class="legend">
        <span class="c-rotation">●</span> at least eleven gates at γ = 1
        <br />
        <span class="c-reflection">◆</span> two or more at γ = 0
        <br />
        <span class="c-quiet">■</span> gates in between
      </p>
      {chosen ? (
        <>
          <Gates run={chosen} />
          <dl>
            <Fact name="run" value={chosen.run} />
            <Fact name="best" value={number(chosen.best)} />
            <Fact name="at step 200" value={number(chosen.step_200)} />
            <Fact name="predicting zero costs" value={number(zero)} />
          </dl>
        </>
      ) : (
        <p>Choose a run to see its twelve gates, and its error at step 200.</p>
      )}
    </Figure>
  );
}

const zeroCost = () =>
  pageResults().results.experiments[0]?.columns.find((column) => column.name === "gyroscope")
    ?.trivial_baselines["zero"] ?? NaN;

function Gates({ run }: { run: GateRun }) {
  const step = 20;
  return (
    <svg
      viewBox="0 0 250 114"
      role="img"
      aria-label={`Gates by operator: ${run.gamma.map((gamma) => number(gamma)).join(", ")}`}
    >
      <path class="grid-line" d="M8 16H242M8 56H242M8 96H242" />
      <text x="8" y="11">
        γ = 1, rotation
      </text>
      <text x="242" y="48" text-anchor="end">
        ½
      </text>
      <text x="8" y="109">
        γ = 0, reflection
      </text>
      {run.gamma.map((gamma, i) => (
        <path
          class={`line strong ${gamma > 0.5 ? "c-rotation" : "c-reflection"}`}
          d={`M${15 + i * step} 56V${pixel(96 - 80 * gamma)}m-4 0h8`}
        />
      ))}
    </svg>
  );
}
