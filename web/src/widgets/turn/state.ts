import { choice, range } from "../../state/fields.ts";

export const fields = {
  beta: range("β", 0, 1e8, 1, 0.01, { scale: "mixed" }),
  angle: range("angle between u and v", 0, 180, 90, 1, { unit: "degrees" }),
  v: range("length of v", 0, 2, 1, 0.01),
  type: choice("numbers", { 64: "float64", 32: "float32" }, "64", ["64", "32"]),
  how: choice("how Q is made", { closed: "closed form", solve: "linear solve" }, "closed"),
  seed: range("seed of the four-dimensional u and v", 1, 100, 1, 1),
};

export const ways = [
  { key: "closed64", type: "64", how: "closed", name: "float64, closed form" },
  { key: "solve64", type: "64", how: "solve", name: "float64, solve" },
  { key: "closed32", type: "32", how: "closed", name: "float32, closed form" },
  { key: "solve32", type: "32", how: "solve", name: "float32, solve" },
] as const;
