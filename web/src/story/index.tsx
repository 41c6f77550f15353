// The sections in the order of the story. The id is also the link.
import type { Story } from "./parts.tsx";
import { drift } from "./drift.tsx";
import { gate } from "./gate.tsx";
import { iterative } from "./iterative.tsx";
import { missing } from "./missing.tsx";
import { predict } from "./predict.tsx";
import { results } from "./results.tsx";
import { seeds } from "./seeds.tsx";
import { spectrum } from "./spectrum.tsx";
import { streams } from "./streams.tsx";
import { trap } from "./trap.tsx";
import { turn } from "./turn.tsx";
import { yours } from "./yours.tsx";

export const stories: Record<string, Story> = {
  drift,
  turn,
  missing,
  gate,
  trap,
  streams,
  iterative,
  spectrum,
  predict,
  results,
  seeds,
  yours,
};
