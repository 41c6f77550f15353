// The sections in the order of the story. The id is also the link.
import type { Story } from "./parts.tsx";
import { results } from "./results.tsx";
import { seeds } from "./seeds.tsx";

export const stories: Record<string, Story> = { results, seeds };
