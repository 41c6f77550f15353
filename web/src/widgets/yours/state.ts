import { choice } from "../../state/fields.ts";

export const fields = {
  tab: choice(
    "show",
    { curves: "training", gates: "gates", inspection: "inspection", jacobian: "Jacobian" },
    "curves",
  ),
};

export const styles = [
  "c-rotation",
  "c-reflection",
  "c-mhc",
  "c-blend",
  "c-jpmhc",
  "c-shc",
  "c-hc",
  "c-additive",
];

export const lines = {
  drop: "Drop a run folder here: nothing leaves this page, nothing is stored.",
  empty: "No run is open. Drop a run folder here, or choose its files.",
  curves: "No metrics.jsonl is open, so there is no curve to draw.",
  gates: "None of these runs has a gate γ or a strength β in its metrics.",
  inspection: "No inspection is open: geores inspect --run DIR --json writes one.",
  jacobian: "No inspection with a Jacobian is open: geores inspect --run DIR --json writes one.",
  drawn: "Filled: measured. Line: theory for the run's own mean mixers and branch variances.",
  working: "Computing the theory for its mean mixers.",
  without: "Its operators are no stream mixers, so there is no theory to draw.",
};
