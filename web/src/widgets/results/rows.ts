// One row a model, from any table of results.json.
import { type Results, type Sample, sampleOf } from "../../numbers/figures.ts";
import { count } from "../../controls/format.ts";
import { models, probes } from "./state.ts";

export interface Row {
  name: string;
  label: string;
  values: readonly number[]; // one a seed
  published: Sample | null;
  detail: string;
}
export interface Table {
  rows: readonly Row[];
  baselines: readonly { name: string; value: number }[];
  quantity: string;
  log: boolean;
  tasks: readonly string[];
  task: string; // the wished one, or the table's first
}

const pick = (wished: string, offered: readonly string[]) =>
  offered.includes(wished) ? wished : (offered[0] ?? wished);

export function tableOf(
  results: Results,
  table: string,
  wished: string,
  set: "best" | "exact",
): Table {
  if (table === "norms") {
    const tasks = Object.keys(results.norms);
    const task = pick(wished, tasks);
    const rows = Object.keys(models)
      .filter((name) => results.norms[task]?.[name])
      .map((name) => {
        const published = results.norms_published?.[name];
        return {
          name,
          label: models[name]!,
          values: results.norms[task]![name]!.map((run) => run.random),
          published:
            published === undefined ? null : { count: 1, mean: published, deviation: null },
          detail: "deviation of the norm on random unit vectors",
        };
      });
    const known = Object.entries(results.norms_baselines ?? {});
    return {
      rows,
      baselines: known.map(([name, value]) => ({ name: name.replace("_", " "), value })),
      quantity: "norm deviation on random vectors",
      log: true,
      tasks,
      task,
    };
  }
  if (table === "reflection") {
    const tasks = Object.keys(results.reflection["ddl"] ?? {}).sort(
      (a, b) => Number(a) - Number(b),
    );
    const task = pick(wished, [...tasks].reverse());
    const rows = Object.keys(probes)
      .filter((name) => results.reflection[name]?.[task])
      .map((name) => {
        const published = results.reflection_published?.[name];
        const runs = results.reflection[name]![task]!;
        const gates = runs.map((run) => run.gamma).filter((gamma) => gamma !== null);
        return {
          name,
          label: probes[name]!,
          values: runs.map((run) => run.cosine),
          published:
            published && task === "500"
              ? { count: 1, mean: published.cosine, deviation: null }
              : null,
          detail: gates.length
            ? `γ at the end ${sampleOf(gates).mean.toFixed(3)}`
            : "cosine of prediction and −x on unseen vectors",
        };
      });
    return { rows, baselines: [], quantity: "cosine with −x", log: false, tasks, task };
  }
  const experiment = results.experiments.find((item) => item.name === table);
  const tasks = experiment?.columns.map((column) => column.name) ?? [];
  const task = pick(wished, tasks);
  const column = experiment?.columns.find((item) => item.name === task);
  return {
    rows: (column?.arms ?? []).map((arm) => ({
      name: arm.name,
      label: arm.label.replace(/ \((ddl_pooled|mhc_split)\)/, ""),
      values: set === "best" ? arm.best_values : arm.exact_values,
      published: arm.published && Number.isFinite(arm.published.mean) ? arm.published : null,
      detail: `${count(arm.parameters)} parameters; ${Object.entries(arm.config)
        .map(([key, value]) => `${key.replaceAll("_", " ")} ${String(value).replaceAll("_", " ")}`)
        .join(", ")}${arm.diverged ? `; ${arm.diverged} diverged` : ""}`,
    })),
    baselines: Object.entries(column?.trivial_baselines ?? {}).map(([name, value]) => ({
      name: name.replace("_", " "),
      value,
    })),
    quantity: "validation MSE",
    log: true,
    tasks,
    task,
  };
}
