// Every widget: which modules and data it needs before it can be drawn.
import type { FunctionComponent } from "preact";
import type { ModuleName } from "../engine/layout.ts";
import { Gate } from "./gate/view.tsx";
import { Missing } from "./missing/view.tsx";
import { Results } from "./results/view.tsx";
import { Seeds } from "./seeds/view.tsx";
import { Skew } from "./skew/view.tsx";
import { Trap } from "./trap/view.tsx";
import { Turn } from "./turn/view.tsx";

export interface Entry {
  view: FunctionComponent;
  needs: readonly (ModuleName | "data")[];
}

export const registry: Record<string, Entry> = {
  skew: { view: Skew, needs: ["plane"] },
  turn: { view: Turn, needs: ["plane"] },
  missing: { view: Missing, needs: ["plane"] },
  gate: { view: Gate, needs: ["plane"] },
  results: { view: Results, needs: ["data"] },
  seeds: { view: Seeds, needs: ["data"] },
  trap: { view: Trap, needs: ["gate"] },
};
