import { range } from "../../state/fields.ts";

export const fields = {
  bm: range("βμ of Cayley", 0, 2600, 2, 0.01, { scale: "mixed" }),
  beta: range("β of Householder", 0, 2.5, 1, 0.01),
  k: range("direction of k", 0, 360, 30, 1, { unit: "degrees" }),
};
