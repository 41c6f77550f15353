import { choice, range } from "../../state/fields.ts";

export const fields = {
  gamma: range("γ", 0, 1, 0.5, 0.01),
  beta: range("β", 0, 20, 1, 0.1),
  k: range("direction of k", 0, 360, 40, 1, { unit: "degrees" }),
  x: range("x, first coordinate", -1.4, 1.4, -0.9, 0.01),
  y: range("x, second coordinate", -1.4, 1.4, -0.3, 0.01),
  n: choice("streams", { 2: "2", 3: "3", 4: "4", 8: "8" }, "2", ["2", "3", "4", "8"]),
  seed: range("seed of u, v, k beyond two streams", 1, 100, 1, 1),
};
