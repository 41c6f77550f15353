// results.json of `geores reproduce`, so far as the section `results` draws it.
import type { Arm, Claim, Results, Sample, Test } from "../numbers/figures.ts";
import {
  type Json,
  list,
  needed,
  numbers,
  numeric,
  object,
  optional,
  parseJson,
  text,
} from "./check.ts";

const sample = (value: Json, where: string): Sample => {
  const from = object(value, where);
  return {
    count: needed(from, "count", where, numeric),
    mean: needed(from, "mean", where, numeric),
    deviation: optional(from, "deviation", where, numeric) ?? null,
  };
};

const test = (value: Json, where: string): Test => {
  const from = object(value, where);
  return { t: needed(from, "t", where, numeric), p: needed(from, "p", where, numeric) };
};

function arm(value: Json, where: string): Arm {
  const from = object(value, where);
  return {
    name: needed(from, "name", where, text),
    label: needed(from, "label", where, text),
    best: needed(from, "best", where, sample),
    exact: needed(from, "exact", where, sample),
    best_values: needed(from, "best_values", where, numbers),
    exact_values: needed(from, "exact_values", where, numbers),
    published: optional(from, "published", where, sample) ?? null,
    parameters: needed(from, "parameters", where, numeric),
    config: optional(from, "config", where, object) ?? {},
    diverged: optional(from, "diverged", where, numeric) ?? 0,
  };
}

function claim(value: Json, where: string): Claim {
  const from = object(value, where);
  return {
    claim: needed(from, "claim", where, text),
    better: needed(from, "better", where, text),
    worse: needed(from, "worse", where, text),
    column: needed(from, "column", where, text),
    measured_ratio: optional(from, "measured_ratio", where, numeric) ?? null,
    measured_test: optional(from, "measured_test", where, test) ?? null,
    published_ratio: optional(from, "published_ratio", where, numeric) ?? null,
    published_test: optional(from, "published_test", where, test) ?? null,
    verdict: needed(from, "verdict", where, text),
  };
}

const baselines = (value: Json, where: string): Record<string, number> =>
  Object.fromEntries(
    Object.entries(object(value, where)).map(([key, item]) => [
      key,
      numeric(item, `${where} "${key}"`),
    ]),
  );

const lists =
  <T>(read: (value: Json, where: string) => T) =>
  (value: Json, where: string) =>
    list(value, where).map((item, i) => read(item, `${where}[${i}]`));

const byName =
  <T>(read: (value: Json, where: string) => T) =>
  (value: Json, where: string) =>
    Object.fromEntries(
      Object.entries(object(value, where)).map(([key, item]) => [
        key,
        read(item, `${where} "${key}"`),
      ]),
    );

export function parseResults(content: string, name: string): Results {
  const from = object(parseJson(content, name), name);
  return {
    experiments: needed(from, "experiments", name, list).map((item, i) => {
      const where = `${name} experiment ${i}`;
      const experiment = object(item, where);
      return {
        name: needed(experiment, "name", where, text),
        title: needed(experiment, "title", where, text),
        columns: needed(experiment, "columns", where, list).map((part, j) => {
          const there = `${where} column ${j}`;
          const column = object(part, there);
          return {
            name: needed(column, "name", there, text),
            arms: needed(column, "arms", there, lists(arm)),
            trivial_baselines: optional(column, "trivial_baselines", there, baselines) ?? {},
          };
        }),
      };
    }),
    claims: optional(from, "claims", name, lists(claim)) ?? [],
    norms:
      optional(
        from,
        "norms",
        name,
        byName(
          byName(
            lists((value, where) => {
              const run = object(value, where);
              return {
                random: needed(run, "random", where, numeric),
                validation: needed(run, "validation", where, numeric),
              };
            }),
          ),
        ),
      ) ?? {},
    reflection:
      optional(
        from,
        "reflection",
        name,
        byName(
          byName(
            lists((value, where) => {
              const run = object(value, where);
              return {
                gamma: optional(run, "gamma", where, numeric) ?? null,
                beta: optional(run, "beta", where, numeric) ?? null,
                cosine: needed(run, "cosine", where, numeric),
              };
            }),
          ),
        ),
      ) ?? {},
    norms_published: optional(from, "norms_published", name, baselines),
    norms_baselines: optional(from, "norms_baselines", name, baselines),
    reflection_published: optional(
      from,
      "reflection_published",
      name,
      byName((value, where) => {
        const published = object(value, where);
        return {
          cosine: needed(published, "cosine", where, numeric),
          gate: optional(published, "gate", where, sample) ?? null,
        };
      }),
    ),
  };
}
