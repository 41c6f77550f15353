// The results files as the page carries them: set once, by the client or by the build. A reader's own
// results.json can replace ours.
import { useEffect, useState } from "preact/hooks";
import type { Results } from "./figures.ts";
import type { PageData } from "./page_data.ts";

let data: PageData | undefined;
let own: Results | undefined;
const listeners = new Set<() => void>();

export const setPageData = (value: PageData) => {
  data = value;
};

export function pageResults(): PageData {
  if (!data) throw new Error("the results are not loaded");
  return data;
}

// A connection's trained mixers in one array, or null.
export const trainedMixers = (connection: string): number[] | null =>
  pageResults().trained.mixers[connection]?.flat() ?? null;
export const trainedDepth = 24;

export function setOwnResults(results: Results | undefined) {
  own = results;
  for (const listener of listeners) listener();
}

// Ours, or the reader's own where one was opened.
export function useResults(): Results {
  const [, redraw] = useState(0);
  useEffect(() => {
    const listener = () => redraw((count) => count + 1);
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, []);
  return own ?? pageResults().results;
}
