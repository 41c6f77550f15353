import { choice, range, several } from "../../state/fields.ts";

export const lines: Record<string, string> = {
  additive: "plain sum",
  edelta: "EΔ",
  ddl: "DDL",
  mhc: "mHC",
  jpmhc: "JPmHC",
  rotation: "exact rotation",
  hc: "HC",
  shc: "sHC",
  permutation: "permutations",
  grassmann: "Grassmann",
};
export const colours: Record<string, string> = {
  additive: "c-additive",
  edelta: "c-blend",
  ddl: "c-reflection",
  mhc: "c-mhc",
  jpmhc: "c-jpmhc",
  rotation: "c-rotation",
  hc: "c-hc",
  shc: "c-shc",
  permutation: "c-mhc dashed",
  grassmann: "c-jpmhc dashed",
};
export const common = ["additive", "rotation", "edelta", "ddl", "mhc", "jpmhc"];
// The trained mixers are those of language models; only these connections have some.
export const trainedLines = ["additive", "hc", "mhc", "shc"];

export const numbers: Record<string, string> = {
  random: "random",
  initial: "as initialised",
  trained: "trained",
};

export const fields = {
  L: range("layers", 1, 96, 48, 1),
  g: range("branch strength g", 0, 0.5, 0, 0.01),
  init: choice("operators", numbers, "random"),
  a: range("alignment of the branch with the state", -1, 1, 0, 0.05),
  gamma: range("γ of EΔ", 0, 1, 0.9, 0.01),
  beta: range("β of DDL", 0, 2, 1, 0.01),
  lines: several("lines", lines, common),
  way: choice("direction", { forward: "forward", backward: "backward" }, "forward"),
  at: range("layer read out", 0, 96, 48, 1),
  seed: range("seed", 1, 100, 1, 1),
};
