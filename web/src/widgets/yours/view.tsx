import { useState } from "preact/hooks";
import { Drawing } from "../../charts/drawing.tsx";
import { Button, Choose } from "../../controls/controls.tsx";
import { Figure, type TableData } from "../../controls/figure.tsx";
import { count, number, several } from "../../controls/format.ts";
import { compute } from "../../engine/engine.ts";
import { addFiles, removeRun, renameRun, type Run, useRuns } from "../../runs/store.ts";
import { useWidget } from "../../state/widget.ts";
import { Density, r as densityArea } from "../spectrum/chart.tsx";
import { binCount, type Request } from "../spectrum/solve.ts";
import { useSpectrum } from "../spectrum/use_spectrum.ts";
import { Chart, type Series } from "./charts.tsx";
import { droppedFiles } from "./drop.ts";
import { fields, lines, styles } from "./state.ts";

const style = (i: number) =>
  `${styles[i % styles.length]} ${["", "dashed", "dotted"][Math.floor(i / styles.length) % 3]}`;

const told = (run: Run): string => {
  const steps = run.metrics
    ? Math.max(0, ...run.metrics.step) + 1
    : Number(run.result?.["steps"] ?? NaN);
  const best = run.result?.["best_validation"];
  const model = run.config?.["connection"] ?? run.config?.["model"];
  return `${run.name}: ${[
    typeof model === "string" ? model : "",
    Number.isFinite(steps) ? several(steps, "step") : "",
    typeof best === "number" ? `best ${number(best, 4)}` : "",
    run.inspection ? "inspection" : "",
    run.weights ? "weights" : "",
  ]
    .filter((part) => part !== "")
    .join(", ")}`;
};

export function Yours() {
  const widget = useWidget("yours", fields);
  const { runs, problems } = useRuns();
  const [over, setOver] = useState(false);
  const tab = widget.state.tab;
  const sentence = runs.length ? `${runs.map(told).join("; ")}.` : lines.empty;
  const pick = (input: HTMLInputElement) => {
    const files = [...(input.files ?? [])].map((file) => ({
      path: file.webkitRelativePath || file.name,
      file,
    }));
    void addFiles(files).finally(() => (input.value = ""));
  };
  return (
    <Figure
      widget={widget}
      caption={
        runs.length
          ? `${runs.length === 1 ? "Your run" : `Your ${runs.length} runs`}, read in this page and nowhere else.`
          : lines.drop
      }
      sentence={sentence}
      table={() => tables(runs)}
      main={
        <>
          <div
            class={`drop${over ? " over" : ""}`}
            onDragOver={(event) => {
              event.preventDefault();
              setOver(true);
            }}
            onDragLeave={() => setOver(false)}
            onDrop={(event) => {
              event.preventDefault();
              setOver(false);
              if (event.dataTransfer) void droppedFiles(event.dataTransfer).then(addFiles);
            }}
          >
            <label class="file-button">
              Choose files
              <input
                type="file"
                class="hidden-input"
                multiple
                accept=".jsonl,.json,.safetensors"
                data-input="files"
                onChange={(event) => pick(event.target as HTMLInputElement)}
              />
            </label>
            <label class="file-button">
              Choose a folder
              <input
                type="file"
                class="hidden-input"
                ref={(input) => input?.setAttribute("webkitdirectory", "")}
                data-input="folder"
                onChange={(event) => pick(event.target as HTMLInputElement)}
              />
            </label>
            <span class="hint">
              metrics.jsonl, config.json, result.json, an inspection (
              <code>geores inspect --json</code>
              ), results.json, best.safetensors
            </span>
          </div>
          {problems.length ? (
            <ul class="problems" role="status">
              {problems.map((problem) => (
                <li class="refusal">{problem}</li>
              ))}
            </ul>
          ) : null}
          {runs.length ? (
            <ul class="run-list">
              {runs.map((run, i) => (
                <li>
                  <span class={`swatch ${style(i)}`} aria-hidden="true" />
                  <span>
                    {told(run)}
                    {run.notes.map((note) => (
                      <small> · {note}</small>
                    ))}
                  </span>
                  <input
                    class="rename"
                    value={run.name}
                    aria-label={`Name of ${run.name}`}
                    onChange={(event) =>
                      renameRun(run.name, (event.target as HTMLInputElement).value)
                    }
                  />
                  <Button onClick={() => removeRun(run.name)}>Remove {run.name}</Button>
                </li>
              ))}
            </ul>
          ) : null}
          {runs.length ? (
            <div class="controls">
              <Choose widget={widget} name="tab" />
            </div>
          ) : null}
          <div class="run-charts">
            {runs.length === 0 ? null : tab === "curves" ? (
              <Curves runs={runs} />
            ) : tab === "gates" ? (
              <Gates runs={runs} />
            ) : tab === "inspection" ? (
              <Inspections runs={runs} />
            ) : (
              <Jacobian runs={runs} />
            )}
          </div>
        </>
      }
    />
  );
}

const Nothing = ({ what }: { what: string }) => <p class="hint">{what}</p>;

function Curves({ runs }: { runs: readonly Run[] }) {
  const series = (
    read: (run: Run) => [ArrayLike<number>, ArrayLike<number>] | undefined,
  ): Series[] =>
    runs.flatMap((run, i) => {
      const found = read(run);
      return found ? [{ name: run.name, x: found[0], y: found[1], class: style(i) }] : [];
    });
  if (!runs.some((run) => run.metrics)) return <Nothing what={lines.curves} />;
  return (
    <>
      <Chart
        title="training loss"
        xLabel="step"
        log
        series={series((run) => run.metrics && [run.metrics.step, run.metrics.loss])}
      />
      <Chart
        title="validation loss"
        xLabel="step"
        log
        series={series((run) => run.metrics && [run.metrics.evaluated, run.metrics.validation])}
      />
      <Chart
        title="gradient norm"
        xLabel="step"
        log
        series={series((run) => run.metrics && [run.metrics.step, run.metrics.gradient])}
      />
      <Chart
        title="learning rate"
        xLabel="step"
        series={series((run) => run.metrics && [run.metrics.step, run.metrics.rate])}
      />
    </>
  );
}

function Gates({ runs }: { runs: readonly Run[] }) {
  const course = (key: "gamma" | "beta"): Series[] =>
    runs.flatMap((run, i) =>
      (run.metrics?.[key] ?? []).map((values, operator) => ({
        name: `${run.name} operator ${operator + 1}`,
        x: run.metrics!.evaluated,
        y: values,
        class: `${style(i)} thin`,
        label: String(operator + 1),
      })),
    );
  const gamma = course("gamma");
  const beta = course("beta");
  if (!gamma.length && !beta.length) return <Nothing what={lines.gates} />;
  return (
    <>
      {gamma.length ? (
        <Chart title="γ of each operator" xLabel="step" series={gamma} yRange={[0, 1]} />
      ) : null}
      {beta.length ? <Chart title="β of each operator" xLabel="step" series={beta} /> : null}
    </>
  );
}

function Inspections({ runs }: { runs: readonly Run[] }) {
  const found = runs.map((run, i) => ({ run, i })).filter(({ run }) => run.inspection);
  if (!found.length) return <Nothing what={lines.inspection} />;
  const positions = (length: number) => Array.from({ length }, (_, i) => i + 1);
  const operators = (
    read: (item: NonNullable<Run["inspection"]>["operators"][number]) => number | undefined,
    dash = "",
  ) =>
    found.map(({ run, i }) => {
      const list = run.inspection!.operators;
      return {
        name: run.name,
        x: positions(list.length),
        y: list.map((item) => read(item) ?? NaN),
        class: `${style(i)} ${dash}`,
      };
    });
  const layers = (key: "norm" | "rank") =>
    found.map(({ run, i }) => ({
      name: run.name,
      x: positions(run.inspection!.layers.length),
      y: run.inspection!.layers.map((layer) => layer[key]),
      class: style(i),
    }));
  // 4γ(1 − γ) of the mean gate, by the C++.
  const law = (gamma: number | undefined) =>
    gamma === undefined
      ? undefined
      : compute("operators", "gate", { gamma, beta: 0, k: 0, x0: 1, x1: 0, n: 2, seed: 1 }).penalty;
  return (
    <>
      <Chart
        title="defect; hollow: 4γ(1 − γ)"
        dots
        xLabel="operator"
        series={[
          ...operators((item) => item.defect?.mean),
          ...operators((item) => law(item.gamma?.mean), "dotted thin"),
        ]}
      />
      <Chart
        title="largest σ; hollow: smallest σ"
        dots
        xLabel="operator"
        series={[
          ...operators((item) => item.sigmaMax?.mean),
          ...operators((item) => item.sigmaMin?.mean, "dotted"),
        ]}
      />
      <Chart
        title="composite norm"
        dots
        xLabel="operator"
        log
        series={operators((item) => item.composite?.mean)}
      />
      <Chart title="RMS after the block" dots xLabel="block" series={layers("norm")} />
      <Chart title="effective rank" dots xLabel="block" series={layers("rank")} />
      {found.flatMap(({ run }) =>
        run.inspection!.warnings.map((warning) => (
          <p class="refusal">
            {run.name}: {warning}
          </p>
        )),
      )}
    </>
  );
}

function Jacobian({ runs }: { runs: readonly Run[] }) {
  const found = runs.filter((run) => run.inspection?.jacobian.length);
  if (!found.length) return <Nothing what={lines.jacobian} />;
  return (
    <>
      {found.map((run) => (
        <div class="drawing" key={run.name}>
          <p class="panel-title">{run.name}</p>
          <OneJacobian run={run} />
        </div>
      ))}
    </>
  );
}

function OneJacobian({ run }: { run: Run }) {
  const inspection = run.inspection!;
  const streams = inspection.streams;
  const mixers = inspection.operators
    .map((item) => item.mixer)
    .filter((mixer) => mixer.length === streams * streams && mixer.length <= 64);
  const usable =
    streams >= 2 && mixers.length === inspection.operators.length && mixers.length <= 200;
  const request: Request | null = usable
    ? {
        mixer: 8,
        streams,
        depth: mixers.length,
        sigma2: 0,
        eta: 0.02,
        seed: 1,
        printed: false,
        block: 1,
        samples: 0,
        given: {
          mixers,
          sigma2: inspection.operators.map((item) => item.branchVariance ?? 0),
        },
      }
    : null;
  const { value, refusal, working } = useSpectrum(request, null, true);
  const most = Math.max(...inspection.jacobian, value ? value.s[value.s.length - 1]! : 0) * 1.05;
  const bins = most / binCount;
  const values = Array<number>(binCount).fill(0);
  for (const s of inspection.jacobian) ++values[Math.min(binCount - 1, Math.floor(s / bins))]!;
  const shown = { ...(value ?? empty), values, bins };
  return (
    <>
      <Drawing
        width={densityArea.width}
        height={densityArea.height}
        label={`Singular values of the Jacobian of ${run.name}${value ? ", with the theory for its own mean mixers as a line" : ""}.`}
      >
        <Density value={shown} history={[]} reader={null} />
      </Drawing>
      <p class="hint">
        {refusal
          ? refusal
          : value
            ? lines.drawn
            : working
              ? lines.working
              : `${run.name} ${lines.without}`}
      </p>
    </>
  );
}

const empty = {
  s: [0],
  rho: [0],
  printed: null,
  printedRefusal: "",
  exact: NaN,
  theory: null,
  sampled: null,
  done: true,
};

const tables = (runs: readonly Run[]): TableData[] =>
  runs.length
    ? runs.map((run) => ({
        caption: run.name,
        head: ["step", "validation"],
        rows: run.metrics
          ? Array.from(run.metrics.evaluated, (step, i) => [
              count(step),
              number(run.metrics!.validation[i]!, 4),
            ])
          : [["–", "–"]],
      }))
    : [{ caption: "No run is open", head: ["step", "validation"], rows: [] }];
