import { range } from "../../state/fields.ts";

export const fields = {
  bm: range("βμ of Cayley", 0, 2600, 2, 0.01, { scale: "mixed" }),
  beta: range("β of Householder", 0, 2.5, 1, 0.01),
  k: range("direction of k", 0, 360, 30, 1, { unit: "degrees" }),
};

const cayley = "Cayley’s pair stays on the circle and short of −1.";
export const captions = {
  singular: `${cayley} Householder’s eigenvalue passes through 0 at β = 1: the operator is singular.`,
  reached: `${cayley} Householder’s eigenvalue is at −1: a reflection.`,
  sliding: `${cayley} Householder’s slides along the real axis and does not jump.`,
};
