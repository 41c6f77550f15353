// metrics.jsonl of a run: one JSON object a line, training steps and evaluations mixed.
import {
  type JsonObject,
  limits,
  needed,
  numbers,
  numeric,
  object,
  parseJson,
  Problem,
} from "./check.ts";

export interface Metrics {
  step: Float64Array;
  loss: Float64Array;
  rate: Float64Array;
  gradient: Float64Array;
  evaluated: Float64Array; // steps of the evaluations
  validation: Float64Array;
  gamma: Float64Array[]; // one an operator, over the evaluations
  beta: Float64Array[];
  notes: string[];
}

export function parseMetrics(content: string, name: string): Metrics {
  const lines = content.split("\n");
  const whole = lines[lines.length - 1] === "";
  if (whole) lines.pop();
  if (lines.length > limits.lines)
    throw new Problem(`${name}: ${lines.length} lines, the limit is ${limits.lines}`);
  if (lines.length === 0) throw new Problem(`${name} is empty`);
  const notes: string[] = [];
  const step: number[] = [];
  const loss: number[] = [];
  const rate: number[] = [];
  const gradient: number[] = [];
  const evaluated: number[] = [];
  const validation: number[] = [];
  const gamma: number[][] = [];
  const beta: number[][] = [];
  lines.forEach((line, index) => {
    const where = `${name} line ${index + 1}`;
    let entry: JsonObject;
    try {
      entry = object(parseJson(line, where), where);
    } catch (error) {
      if (index !== lines.length - 1 || whole) throw error;
      notes.push(`${name}: the last line is cut off and was left out`);
      return;
    }
    const at = needed(entry, "step", where, numeric);
    if ("validation" in entry) {
      evaluated.push(at);
      validation.push(needed(entry, "validation", where, numeric));
      for (const [key, series] of [
        ["gamma", gamma],
        ["beta", beta],
      ] as const)
        if (key in entry)
          needed(entry, key, where, numbers).forEach((value, operator) => {
            const values = (series[operator] ??= []);
            while (values.length < evaluated.length - 1) values.push(NaN);
            values.push(value);
          });
    } else {
      step.push(at);
      loss.push(needed(entry, "loss", where, numeric));
      rate.push("lr" in entry ? needed(entry, "lr", where, numeric) : NaN);
      gradient.push("grad_norm" in entry ? needed(entry, "grad_norm", where, numeric) : NaN);
    }
  });
  const packed = (values: number[]) => Float64Array.from(values);
  return {
    step: packed(step),
    loss: packed(loss),
    rate: packed(rate),
    gradient: packed(gradient),
    evaluated: packed(evaluated),
    validation: packed(validation),
    gamma: gamma.map(packed),
    beta: beta.map(packed),
    notes,
  };
}
