import { choice } from "../../state/fields.ts";

export const fields = {
  tab: choice(
    "show",
    { curves: "training", gates: "gates", inspection: "inspection", jacobian: "Jacobian" },
    "curves",
  ),
};
