import { range } from "../../state/fields.ts";

const coordinate = (label: string, first: number) => range(label, -2, 2, first, 0.01);

export const fields = {
  ux: coordinate("u, first coordinate", 1.2),
  uy: coordinate("u, second coordinate", 0.3),
  uz: coordinate("u, third coordinate", 0),
  vx: coordinate("v, first coordinate", -0.4),
  vy: coordinate("v, second coordinate", 1),
  vz: coordinate("v, third coordinate", 0),
};
