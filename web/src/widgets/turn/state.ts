import { choice, range } from "../../state/fields.ts";

export const fields = {
  beta: range("β", 0, 1e8, 1, 0.01, { scale: "mixed" }),
  angle: range("angle between u and v", 0, 180, 90, 1, { unit: "degrees" }),
  v: range("length of v", 0, 2, 1, 0.01),
  type: choice("numbers", { 64: "float64", 32: "float32" }, "64", ["64", "32"]),
  how: choice("how Q is made", { closed: "closed form", solve: "linear solve" }, "closed"),
  seed: range("seed of the four-dimensional u and v", 1, 100, 1, 1),
};
