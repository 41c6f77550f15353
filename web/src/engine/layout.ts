// The structs of doubles that the WebAssembly modules share with the page, field by field in the
// order of web/wasm/*.cpp. `load` checks each size; a unit test checks each name.

export type Shape = Record<string, number>;
export interface Layout {
  in: Shape;
  out: Shape;
}

const ones = <K extends string>(...names: K[]): Record<K, 1> =>
  Object.fromEntries(names.map((name) => [name, 1])) as Record<K, 1>;

const plane = {
  polar: { in: ones("x", "y"), out: ones("length", "radians", "degrees") },
  turn: {
    in: ones("beta", "ux", "uy", "vx", "vy", "single", "solve", "seed", "wanted"),
    out: {
      a: 4,
      area: 1,
      mu: 1,
      q: 4,
      det: 1,
      theta: 1,
      gap: 1,
      beta_for_wanted: 1,
      kept: 4,
      gram: 16,
      defect: 1,
      grid: 51,
      closed64: 51,
      solve64: 51,
      closed32: 51,
      solve32: 51,
    },
  },
  missing: {
    in: ones("bm", "beta", "k", "wanted"),
    out: {
      q: 4,
      theta: 1,
      re: 1,
      im: 1,
      gap: 1,
      distance: 1,
      cosine: 1,
      bm_for_wanted: 1,
      h: 4,
      h_eigenvalues: 2,
      h_det: 1,
      h_sigma_min: 1,
    },
  },
  gate: {
    in: ones("gamma", "beta", "k", "x0", "x1", "n", "seed"),
    out: {
      q: 4,
      h: 4,
      g: 4,
      qx: 2,
      hx: 2,
      gx: 2,
      sigma: 2,
      directions: 4,
      defect: 1,
      sigma_min: 1,
      sigma_max: 1,
      det: 1,
      penalty: 1,
      smallest: 1,
      grid: 51,
      penalty_curve: 51,
      defect_curve: 51,
      smallest_curve: 51,
      sigma_min_curve: 51,
      det_curve: 51,
    },
  },
} as const;

const gate = {
  trap: {
    in: ones("lambda", "t", "b", "nudge", "adamw", "decay", "steps", "rate", "noise", "seed"),
    out: {
      gamma_start: 1,
      gamma_end: 1,
      watershed: 1,
      watershed_exists: 1,
      grid: 101,
      landscape: 101,
      slope: 101,
      arrows: 21,
      path_step: 201,
      path: 201,
      others: 4020,
      other_ends: 20,
    },
  },
} as const;

const driftInputs = {
  ...ones("layers", "g", "alignment", "gamma", "beta", "seed", "backward", "focus", "numbers"),
  trained: 1152,
} as const;

const streams = {
  drift: { in: driftInputs, out: { norms: 970, strip: 388, ends: 10 } },
  drift_median: { in: driftInputs, out: { medians: 10 } },
  film: { in: ones("gamma", "branch", "initial", "seed"), out: { layers: 8, frames: 160 } },
  bench: {
    in: {
      ...ones("connection", "n", "scale", "initial", "seed", "iterations", "layers", "given"),
      trained: 384,
    },
    out: {
      h: 64,
      row_sums: 8,
      column_sums: 8,
      sigma: 8,
      re: 8,
      im: 8,
      det: 1,
      defect: 1,
      sigma_course: 768,
      re_course: 768,
      im_course: 768,
    },
  },
  sweeps: { in: ones("off", "seed"), out: { errors: 65, direct: 1 } },
  iterative: {
    in: ones("m", "steps", "from_identity", "ratio"),
    out: {
      defect: 1,
      plane_m: 2,
      plane_defect: 2,
      plane_formula: 2,
      re: 4,
      im: 4,
      exact_re: 4,
      exact_im: 4,
      minus_identity: 1,
      limit: 1,
      grid: 111,
      formulas: 444,
    },
  },
} as const;

const predictor = {
  predictor_model: {
    in: {},
    out: ones(
      "layers",
      "width",
      "streams",
      "input_width",
      "context",
      "operators",
      "gated",
      "rotates",
      "causal",
      "parameters",
    ),
  },
  path: { in: ones("i", "j", "x", "y", "theta", "length", "width"), out: ones("shown_missing") },
  predict: {
    in: ones("length", "shown", "feed"),
    out: { model_mse: 1, rules_mse: 4, errors: 256, rules_errors: 1024 },
  },
  rules: { in: ones("length", "shown", "feed"), out: { rules_mse: 4, rules_errors: 1024 } },
} as const;

const spectrum = {
  spectrum_chain: {
    in: {
      ...ones("mixer", "streams", "depth", "sigma2_total", "eta", "seed", "given_layers"),
      given_sigma2: 200,
      given_mixers: 12800,
    },
    out: ones("edge", "exact_first", "exact_second"),
  },
  spectrum_density: { in: { count: 1, printed: 1, s: 16 }, out: { rho: 16 } },
  spectrum_summary: { in: ones("part"), out: ones("near_zero", "low", "high", "first", "second") },
  spectrum_sample: {
    in: ones("first", "count", "block", "seed"),
    out: { values_count: 1, values: 4000 },
  },
  spectrum_compare: {
    in: { points: 1, s: 512, theory: 512 },
    out: {
      rho: 512,
      distance: 1,
      near_zero: 1,
      low: 1,
      high: 1,
      first: 1,
      second: 1,
      samples: 1,
    },
  },
} as const;

export const layouts = { operators: { ...plane, ...gate, ...streams }, predictor, spectrum };
export type ModuleName = keyof typeof layouts;

type Values<S> = {
  -readonly [K in keyof S]: S[K] extends 1 ? number : Float64Array;
};
type Inputs<S> = { [K in keyof S]: S[K] extends 1 ? number : ArrayLike<number> };
export type In<L> = L extends { in: infer I } ? Inputs<I> : never;
export type Out<L> = L extends { out: infer O } ? Values<O> : never;
