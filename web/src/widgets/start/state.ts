import { choice } from "../../state/fields.ts";

export const fields = {
  task: choice(
    "task",
    {
      gyroscope: "gyroscope",
      stability: "stability",
      near_pi: "near π",
      near_pi_multi: "near π, 32 planes",
    },
    "near_pi",
  ),
};

// The four cells: which arm, with an operator or without, from which start.
export const cells = [
  { arm: "none_small", operator: "no operator", start: "small start", colour: "c-additive" },
  { arm: "hybrid_small", operator: "EΔ’s operator", start: "small start", colour: "c-blend" },
  { arm: "none_identity", operator: "no operator", start: "identity start", colour: "c-additive" },
  { arm: "hybrid_identity", operator: "EΔ’s operator", start: "identity start", colour: "c-blend" },
];
