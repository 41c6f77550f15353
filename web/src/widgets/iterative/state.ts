import { choice, range } from "../../state/fields.ts";

export const fields = {
  m: range("m = ‖αW‖₂", 0, 2.2, 1.2, 0.01),
  s: choice("steps", { "1": "1", "2": "2", "3": "3" }, "2", ["1", "2", "3"]),
  start: choice("start", { own: "Y₀ = I + αW", identity: "Y₀ = I" }, "own"),
  ratio: range("second plane against the first", 0, 1, 1, 0.01),
};

export const formulas = ["m²", "m⁴/4", "m⁴|4 − m²|/16", "m⁶|4 − m²|/64"];
export const labelled = [25, 77, 47, 25]; // the point of its curve that each formula labels
