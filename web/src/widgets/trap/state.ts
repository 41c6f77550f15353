import { choice, range, type State } from "../../state/fields.ts";

export const fields = {
  lambda: range("weight λ of the gate loss", 0, 1, 0.1, 0.01),
  t: range("slope t of the task", -0.5, 0.5, 0, 0.01),
  b: range("start b₀", -3, 3, 0, 0.01),
  nudge: choice(
    "nudge",
    { "0": "none", "1e-6": "10⁻⁶", "-1e-6": "−10⁻⁶", "1e-2": "0.01", "-1e-2": "−0.01" },
    "0",
    ["0", "1e-6", "-1e-6", "1e-2", "-1e-2"],
  ),
  opt: choice("optimiser", { descent: "plain descent", adamw: "AdamW" }, "descent"),
  steps: range("steps", 100, 5000, 2000, 100),
  rate: range("rate", 1e-4, 1, 0.1, 1e-4, { scale: "log" }),
  noise: range("noise on b", 0, 0.5, 0, 0.01),
  seed: range("seed of the noise", 1, 100, 1, 1),
};

export const presets: [string, Partial<State<typeof fields>>][] = [
  ["exactly on ½", {}],
  ["a millionth off ½", { nudge: "1e-6", opt: "adamw", rate: 1e-3 }],
  ["the paper's probe, no task", { lambda: 0.5, b: -1.5, opt: "adamw", rate: 1e-3 }],
  ["the task disagrees", { t: 0.1, b: 0.4 }],
];
