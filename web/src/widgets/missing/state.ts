import { range } from "../../state/fields.ts";

export const fields = {
  bm: range("βμ of Cayley", 0, 2600, 2, 0.01, { scale: "mixed" }),
  beta: range("β of Householder", 0, 2.5, 1, 0.01),
  k: range("direction of k", 0, 360, 30, 1, { unit: "degrees" }),
};

const left = "Left: Cayley's pair stays on the circle and short of −1.";
export const captions = {
  singular: `${left} Right: at β = 1 Householder's eigenvalue passes through 0, where the operator is singular.`,
  sliding: `${left} Right: Householder's eigenvalue slides along the real axis; it does not jump.`,
};
