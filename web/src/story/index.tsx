// The sections in the order of the reader's questions. The id is also the link.
import type { Story } from "./parts.tsx";
import { drift } from "./drift.tsx";
import { gate } from "./gate.tsx";
import { iterative } from "./iterative.tsx";
import { missing } from "./missing.tsx";
import { predict } from "./predict.tsx";
import { results } from "./results.tsx";
import { seeds } from "./seeds.tsx";
import { spectrum } from "./spectrum.tsx";
import { start } from "./start.tsx";
import { streams } from "./streams.tsx";
import { trap } from "./trap.tsx";
import { turn } from "./turn.tsx";
import { yours } from "./yours.tsx";

// The plain residual, its replacements, their effect over depth, and whether they help.
export const stories: Record<string, Story> = {
  drift,
  streams,
  turn,
  missing,
  gate,
  trap,
  iterative,
  spectrum,
  predict,
  results,
  start,
  seeds,
  yours,
};
