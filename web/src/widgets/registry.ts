// Every widget: which modules and data it needs before it can be drawn.
import type { FunctionComponent } from "preact";
import type { ModuleName } from "../engine/layout.ts";
import { Drift } from "./drift/view.tsx";
import { Film } from "./film/view.tsx";
import { Gate } from "./gate/view.tsx";
import { Iterative } from "./iterative/view.tsx";
import { Missing } from "./missing/view.tsx";
import { Predict } from "./predict/view.tsx";
import { Results } from "./results/view.tsx";
import { Seeds } from "./seeds/view.tsx";
import { Spectrum } from "./spectrum/view.tsx";
import { Start } from "./start/view.tsx";
import { Streams } from "./streams/view.tsx";
import { Trap } from "./trap/view.tsx";
import { Turn } from "./turn/view.tsx";
import { Yours } from "./yours/view.tsx";

export interface Entry {
  view: FunctionComponent;
  needs: readonly (ModuleName | "data" | "models")[];
  late?: boolean; // started when its section comes near
}

export const registry: Record<string, Entry> = {
  film: { view: Film, needs: ["operators"] },
  drift: { view: Drift, needs: ["operators", "data"] },
  turn: { view: Turn, needs: ["operators"] },
  missing: { view: Missing, needs: ["operators"] },
  gate: { view: Gate, needs: ["operators"] },
  trap: { view: Trap, needs: ["operators"] },
  streams: { view: Streams, needs: ["operators", "data"] },
  iterative: { view: Iterative, needs: ["operators"] },
  spectrum: { view: Spectrum, needs: ["operators", "data"], late: true },
  predict: { view: Predict, needs: ["operators", "data", "models"], late: true },
  results: { view: Results, needs: ["data"] },
  start: { view: Start, needs: ["data"] },
  seeds: { view: Seeds, needs: ["data"] },
  yours: { view: Yours, needs: ["operators"] },
};
