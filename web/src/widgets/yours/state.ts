import { choice } from "../../state/fields.ts";

export const fields = {
  tab: choice(
    "show",
    { curves: "training", gates: "gates", inspection: "inspection", jacobian: "Jacobian" },
    "curves",
  ),
};

// The runs' own colours: those of rotations and reflections mean something else.
export const styles = ["c-run1", "c-run2", "c-run3", "c-run4", "c-run5", "c-run6"];

export const lines = {
  drop: "Drop a run folder here: nothing leaves this page, nothing is stored.",
  empty: "No run is open. Drop a run folder here, or choose its files.",
  curves: "No metrics.jsonl is open, so there is no curve to draw.",
  gates: "None of these runs has a gate γ or a strength β in its metrics.",
  inspection: "No inspection is open: geores inspect --run DIR --json writes one.",
  jacobian: "No inspection with a Jacobian is open: geores inspect --run DIR --json writes one.",
  drawn: "Filled: measured. Line: theory for the run's own mean mixers and branch variances.",
  working: "Computing the theory for its mean mixers.",
  without: "does not mix streams, so there is no theory to compare with.",
};
