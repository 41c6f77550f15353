import { choice, range } from "../../state/fields.ts";

export const connections: Record<string, string> = {
  edelta: "EΔ",
  ddl: "DDL",
  hc: "HC (free)",
  mhc: "mHC, Sinkhorn",
  mhc_lite: "mHC-lite",
  shc: "sHC",
  jpmhc: "JPmHC, Cayley",
  jpmhc_exact: "JPmHC, exact Cayley",
  jpmhc_sinkhorn: "JPmHC, Sinkhorn",
  jpmhc_permutation: "JPmHC, permutations",
  jpmhc_grassmann: "JPmHC, Grassmann",
};
export const colours: Record<string, string> = {
  edelta: "c-blend",
  ddl: "c-reflection",
  hc: "c-hc",
  mhc: "c-mhc",
  mhc_lite: "c-mhc",
  shc: "c-shc",
  jpmhc: "c-jpmhc",
  jpmhc_exact: "c-jpmhc",
  jpmhc_sinkhorn: "c-jpmhc",
  jpmhc_permutation: "c-jpmhc",
  jpmhc_grassmann: "c-jpmhc",
};

export const fields = {
  c: choice("connection", connections, "mhc"),
  n: range("streams", 2, 8, 4, 1),
  scale: range("scale of the logits", 0, 5, 1, 0.1),
  init: choice(
    "operators",
    { random: "random", initial: "as initialised", trained: "trained" },
    "random",
  ),
  it: range("Sinkhorn iterations", 1, 50, 20, 1),
  layers: range("layers multiplied", 1, 96, 12, 1),
  pin: choice("compared with", { none: "none", ...connections }, "none", [
    "none",
    ...Object.keys(connections),
  ]),
  seed: range("seed", 1, 100, 1, 1),
};
