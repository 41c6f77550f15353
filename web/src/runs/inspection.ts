// The output of `geores inspect --json`.
import {
  type Json,
  list,
  needed,
  numbers,
  numeric,
  object,
  optional,
  parseJson,
  Problem,
  text,
} from "./check.ts";

export interface Spread {
  mean: number;
  least: number;
  most: number;
}
export interface Operator {
  name: string;
  gamma?: Spread;
  beta?: Spread;
  defect?: Spread;
  sigmaMin?: Spread;
  sigmaMax?: Spread;
  composite?: Spread;
  branchVariance?: number;
  mixer: number[];
}
export interface Inspection {
  connection: string;
  streams: number;
  operators: Operator[];
  layers: { norm: number; rank: number }[];
  jacobian: number[]; // singular values of the whole stack
  warnings: string[];
}

const spread = (value: Json, where: string): Spread => {
  const from = object(value, where);
  return {
    mean: needed(from, "mean", where, numeric),
    least: needed(from, "least", where, numeric),
    most: needed(from, "most", where, numeric),
  };
};

function operator(value: Json, where: string): Operator {
  const from = object(value, where);
  return {
    name: needed(from, "name", where, text),
    gamma: optional(from, "gamma", where, spread),
    beta: optional(from, "beta", where, spread),
    defect: optional(from, "orthogonality_defect", where, spread),
    sigmaMin: optional(from, "sigma_min", where, spread),
    sigmaMax: optional(from, "sigma_max", where, spread),
    composite: optional(from, "composite_norm", where, spread),
    branchVariance: optional(from, "branch_variance", where, numeric),
    mixer: optional(from, "mean_mixer", where, numbers) ?? [],
  };
}

export function parseInspection(content: string, name: string): Inspection {
  const from = object(parseJson(content, name), name);
  const operators = needed(from, "operators", name, list).map((item, i) =>
    operator(item, `${name} operator ${i}`),
  );
  if (operators.length > 1000)
    throw new Problem(`${name}: ${operators.length} operators, the limit is 1000`);
  const jacobian = object(needed(from, "jacobian", name, object), name);
  const stack = optional(jacobian, "whole_stack", name, object);
  return {
    connection: needed(from, "connection", name, text),
    streams: needed(from, "streams", name, numeric),
    operators,
    layers: needed(from, "layers", name, list).map((item, i) => {
      const where = `${name} layer ${i}`;
      const layer = object(item, where);
      return {
        norm: needed(layer, "norm_out", where, numeric),
        rank: needed(layer, "effective_rank", where, numeric),
      };
    }),
    jacobian: stack ? needed(stack, "singular_values", `${name} whole_stack`, numbers) : [],
    warnings: (optional(from, "warnings", name, list) ?? []).map((item, i) =>
      text(item, `${name} warning ${i}`),
    ),
  };
}
