// The part of the results files that is in the page: the data of the sections `results` and `seeds`
// draw, without the training histories.
import type { Spectrum } from "../widgets/spectrum/solve.ts";
import type { GateRun, Results } from "./figures.ts";

// docs/results/explorer.json
export interface Trained {
  language: Record<string, number[]>; // exact validation losses, one a seed
  step: Record<string, number>; // time of a step over that of the plain residual
  sudoku: Record<string, number[]>; // share of sudokus solved, one a seed
  mixers: Record<string, number[][]>; // of each sublayer, after training
}

export interface PageData {
  results: Results;
  gates: GateRun[];
  trained: Trained;
  driftMedians?: number[]; // of the first state, over twenty seeds
  predictMeans?: Record<string, number>; // squared error of each predictor, over 200 turns
  spectrum?: Spectrum; // its first state, which takes too long to compute while hydrating
}

const six = (_: string, value: unknown) =>
  typeof value === "number" && !Number.isInteger(value) ? Number(value.toPrecision(6)) : value;

export function pageData(results: Results, gates: readonly GateRun[], trained: Trained): PageData {
  const data: PageData = {
    results: {
      experiments: results.experiments.map((experiment) => ({
        name: experiment.name,
        title: experiment.title,
        columns: experiment.columns.map((column) => ({
          name: column.name,
          trivial_baselines: column.trivial_baselines,
          arms: column.arms.map((arm) => ({
            name: arm.name,
            label: arm.label,
            best: arm.best,
            exact: arm.exact,
            best_values: arm.best_values,
            exact_values: arm.exact_values,
            published: arm.published,
            parameters: arm.parameters,
            config: arm.config,
            diverged: arm.diverged,
          })),
        })),
      })),
      claims: results.claims,
      norms: map(results.norms, (task) =>
        map(task, (runs) => runs.map(({ random, validation }) => ({ random, validation }))),
      ),
      reflection: map(results.reflection, (operator) =>
        map(operator, (runs) => runs.map(({ gamma, beta, cosine }) => ({ gamma, beta, cosine }))),
      ),
      norms_published: results.norms_published,
      norms_baselines: results.norms_baselines,
      reflection_published: results.reflection_published,
    },
    trained,
    gates: gates.map((run) => ({ ...run, run: run.run.replace(/^.*-seed/, "seed ") })),
  };
  return JSON.parse(JSON.stringify(data, six)) as PageData;
}

const map = <A, B>(from: Record<string, A>, to: (value: A) => B): Record<string, B> =>
  Object.fromEntries(Object.entries(from ?? {}).map(([key, value]) => [key, to(value)]));
