import { choice, range } from "../../state/fields.ts";

const coordinate = (label: string, first: number) => range(label, -2, 2, first, 0.01);

export const fields = {
  beta: range("β", 0, 1e8, 1, 0.01, { scale: "mixed" }),
  ux: coordinate("u, first coordinate", 1.2),
  uy: coordinate("u, second coordinate", 0.3),
  vx: coordinate("v, first coordinate", -0.4),
  vy: coordinate("v, second coordinate", 1),
  type: choice("numbers", { 64: "float64", 32: "float32" }, "64", ["64", "32"]),
  how: choice("how Q is made", { closed: "closed form", solve: "linear solve" }, "closed"),
  seed: range("seed of the plane in four dimensions", 1, 100, 1, 1),
};

export const ways = [
  { key: "closed64", type: "64", how: "closed", name: "float64, closed form" },
  { key: "solve64", type: "64", how: "solve", name: "float64, solve" },
  { key: "closed32", type: "32", how: "closed", name: "float32, closed form" },
  { key: "solve32", type: "32", how: "solve", name: "float32, solve" },
] as const;
