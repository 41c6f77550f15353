import { choice, range } from "../../state/fields.ts";

export const mixers: Record<string, string> = {
  identity: "identity (plain residual)",
  bistochastic: "doubly stochastic (mHC)",
  orthogonal: "orthogonal",
  cayley: "iterative Cayley (JPmHC)",
  grassmann: "Grassmann projector",
  permutation: "permutations",
  shc: "spectral sphere (sHC)",
  gaussian: "Gaussian (no constraint)",
};

export const fields = {
  mixer: choice("mixer", mixers, "bistochastic"),
  init: choice(
    "operators",
    { random: "random", initial: "as initialised", trained: "trained" },
    "random",
  ),
  L: range("depth", 1, 100, 10, 1),
  s2: range("branch variance σ²L", 0, 0.5, 0.05, 0.005),
  eta: range("blur η", 0.005, 0.1, 0.02, 0.005),
  mc: choice("Monte Carlo", { on: "on", off: "off" }, "on"),
  p: range("width of a stream p", 4, 50, 25, 1),
  samples: range("samples", 10, 500, 60, 10),
  printed: choice("equation as printed", { off: "off", on: "on" }, "off"),
  seed: range("seed", 1, 100, 1, 1),
};

// The connection on the bench (widgets/streams) whose start or whose trained mixers a mixer stands for.
export const connectionOf: Record<string, string> = {
  bistochastic: "mhc",
  cayley: "jpmhc",
  grassmann: "jpmhc_grassmann",
  permutation: "jpmhc_permutation",
  shc: "shc",
  gaussian: "hc",
};
