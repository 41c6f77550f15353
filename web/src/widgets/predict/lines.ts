// Every predictor, with its errors.
import { pathLength, type Prediction, rules } from "../../engine/predictor.ts";

export interface Line {
  name: string;
  class: string;
  mark: "dot" | "square" | "cross";
  states: Float64Array;
  errors: Float64Array; // mean over the coordinates, squared
  mse: number;
}

export const positions = Array.from({ length: pathLength }, (_, i) => i + 1);
export const widthOf = (q: Prediction) => q.targets.length / q.errors.length;

export const modelLine = (
  name: string,
  style: string,
  mark: Line["mark"],
  from: Prediction,
): Line => ({
  name,
  class: style,
  mark,
  states: from.outputs,
  errors: from.errors,
  mse: from.mse,
});

export function ruleLine(q: Prediction, rule: number, style: string): Line {
  const width = widthOf(q);
  const length = q.errors.length;
  return {
    name: rules[rule]!,
    class: style,
    mark: "cross",
    states: q.rules.subarray(rule * length * width, (rule + 1) * length * width),
    errors: q.rulesErrors.slice(rule * 256, rule * 256 + length),
    mse: q.rulesMse[rule]!,
  };
}

// How far a prediction is from the truth, as a length.
export const distance = (error: number, width: number) => (width * error) ** 0.5;
