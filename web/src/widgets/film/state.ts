import { choice, range } from "../../state/fields.ts";

export const rows: Record<string, string> = {
  additive: "plain sum",
  rotation: "rotation",
  blend: "blend (EΔ)",
  delta: "delta rule (DDL)",
  mixing: "mixing (mHC)",
};
export const colours = ["c-additive", "c-rotation", "c-blend", "c-reflection", "c-mhc"];

export const fields = {
  gamma: range("γ of the blend: 0 reflection, 1 rotation", 0, 1, 0.9, 0.01),
  branch: choice("branch", { off: "off", on: "on" }, "off"),
  init: choice("operators", { random: "random", initial: "as initialised" }, "random"),
  seed: range("seed", 1, 100, 1, 1),
};
