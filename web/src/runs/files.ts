// Identifies files and parses them. Runs in the worker, so that a large file does not
// hold the page up.
import type { Results } from "../numbers/figures.ts";
import { type JsonObject, limits, object, parseJson, Problem } from "./check.ts";
import { type Inspection, parseInspection } from "./inspection.ts";
import { type Metrics, parseMetrics } from "./metrics.ts";
import { parseResults } from "./results.ts";
import { checkSafetensors, type Tensors } from "./safetensors.ts";

export type Parsed =
  | { kind: "metrics"; metrics: Metrics }
  | { kind: "config"; config: JsonObject; text: string }
  | { kind: "result"; result: JsonObject }
  | { kind: "inspection"; inspection: Inspection }
  | { kind: "results"; results: Results }
  | { kind: "weights"; tensors: Tensors; bytes: Uint8Array }
  | { kind: "problem"; message: string };

export const tooLarge = (name: string, size: number) =>
  `${name}: ${size} bytes, the limit is ${limits.file}`;

export const known = (name: string) => /\.(jsonl?|safetensors)$/.test(name);

// Files of a run folder that have nothing to draw: what the model is made of, the optimiser's state, the
// mixers' matrices.
export const passedOver = (name: string) =>
  /^(model\.json|tokenizer\.json|checkpoint.*\.safetensors|mixers\.safetensors)$/.test(name);

export function parseFile(path: string, bytes: Uint8Array): Parsed {
  const name = path.split("/").pop() ?? path;
  try {
    if (bytes.length > limits.file) throw new Problem(tooLarge(name, bytes.length));
    if (name.endsWith(".safetensors"))
      return { kind: "weights", tensors: checkSafetensors(bytes, name), bytes };
    if (!known(name))
      throw new Problem(`${name}: only .jsonl, .json and .safetensors files of geores are read`);
    let content: string;
    try {
      content = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    } catch {
      throw new Problem(`${name} is not UTF-8 text`);
    }
    if (name.endsWith(".jsonl")) return { kind: "metrics", metrics: parseMetrics(content, name) };
    const top = object(parseJson(content, name), name);
    if ("experiments" in top) return { kind: "results", results: parseResults(content, name) };
    if ("operators" in top && "jacobian" in top)
      return { kind: "inspection", inspection: parseInspection(content, name) };
    if ("best_validation" in top) return { kind: "result", result: top };
    if ("connection" in top || "model" in top || "task" in top)
      return { kind: "config", config: top, text: content };
    throw new Problem(`${name}: neither config, result, inspection nor results of geores`);
  } catch (error) {
    if (error instanceof Problem) return { kind: "problem", message: error.message };
    return {
      kind: "problem",
      message: `${name} could not be read: ${String(error).slice(0, 120)}`,
    };
  }
}
