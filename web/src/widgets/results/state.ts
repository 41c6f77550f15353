import { choice } from "../../state/fields.ts";

export const tables: Record<string, string> = {
  main: "Tables 6 and 12: five connections",
  controls: "Controls: future, start, gate",
  gate_start: "Table 8: where the gate starts",
  gate_weight: "Table 9: weight λ of the gate loss",
  width: "Width against depth",
  hidden_ratio: "Hidden width of the generators",
  theta: "Towards θ = π",
  norms: "Table 18: norm preservation",
  reflection: "Table 7: learning y = −x",
  start: "Past the paper: the operator, or the start",
  explain: "Past the paper: why a small start helps",
  orthogonal: "Past the paper: orthogonal at all values",
};

export const tasks: Record<string, string> = {
  gyroscope: "gyroscope",
  stability: "stability",
  near_pi: "near π",
  near_pi_multi: "near π, 32 planes",
  "2.5": "θ = 2.5",
  "2.8": "θ = 2.8",
  "3.0": "θ = 3.0",
  "3.1": "θ = 3.1",
  "3.13": "θ = 3.13",
  "3.14": "θ = 3.14",
  "10": "10 samples",
  "25": "25 samples",
  "50": "50 samples",
  "100": "100 samples",
  "200": "200 samples",
  "500": "500 samples",
};

export const fields = {
  table: choice("table", tables, "main"),
  task: choice("task", tasks, "stability", [
    ...["gyroscope", "stability", "near_pi", "near_pi_multi"],
    ...["2.5", "2.8", "3.0", "3.1", "3.13", "3.14"],
    ...["10", "25", "50", "100", "200", "500"],
  ]),
  set: choice("measured on", { best: "best evaluation", exact: "whole validation set" }, "best"),
  sort: choice("rows", { given: "as in the table", measured: "by our mean" }, "given"),
  claim: choice(
    "claim",
    {}, // each is called by its number
    "none",
    ["none", ...Array.from({ length: 13 }, (_, i) => String(i + 1))],
  ),
};

export const probes: Record<string, string> = {
  ddl: "DDL",
  edelta: "EΔ, gate from −1.5",
  edelta_neutral: "EΔ, gate from 0",
  edelta_idle: "EΔ, gate loss alone (no task)",
  jpmhc: "JPmHC, Y₀ = I",
  jpmhc_own: "JPmHC, its own Y₀ = I + αW",
};
export const models: Record<string, string> = {
  gpt: "GPT (additive)",
  ddl: "DDL",
  mhc: "mHC",
  jpmhc: "JPmHC (Cayley)",
  edelta: "EΔ, entropy gate (as run)",
  edelta_plain: "EΔ, plain gate (as described)",
};
