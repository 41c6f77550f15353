// The sections in the order of the story. The id is also the link.
import type { Story } from "./parts.tsx";
import { gate } from "./gate.tsx";
import { missing } from "./missing.tsx";
import { results } from "./results.tsx";
import { seeds } from "./seeds.tsx";
import { skew } from "./skew.tsx";
import { turn } from "./turn.tsx";

export const stories: Record<string, Story> = { skew, turn, missing, gate, results, seeds };
