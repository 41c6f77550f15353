// The reader's own runs: read from files or put into the page by `geores explore`. Nothing is kept
// beyond the page.
import { useEffect, useState } from "preact/hooks";
import { bytesOf } from "../engine/unpack.ts";
import { parseInWorker } from "../engine/worker_client.ts";
import { setOwnResults } from "../numbers/store.ts";
import { type JsonObject, limits } from "./check.ts";
import { known, passedOver, type Parsed, tooLarge } from "./files.ts";
import type { Inspection } from "./inspection.ts";
import type { Metrics } from "./metrics.ts";

export interface Run {
  name: string;
  metrics?: Metrics;
  config?: JsonObject;
  configText?: string;
  result?: JsonObject;
  inspection?: Inspection;
  weights?: Uint8Array;
  notes: string[];
}

let runs: readonly Run[] = [];
let problems: readonly string[] = [];
const listeners = new Set<() => void>();

const tell = () => {
  for (const listener of listeners) listener();
};

export const allRuns = () => runs;

export function useRuns(): { runs: readonly Run[]; problems: readonly string[] } {
  const [, redraw] = useState(0);
  useEffect(() => {
    const listener = () => redraw((count) => count + 1);
    listeners.add(listener);
    listener();
    return () => void listeners.delete(listener);
  }, []);
  return { runs, problems };
}

export function removeRun(name: string) {
  runs = runs.filter((run) => run.name !== name);
  tell();
}

export function renameRun(name: string, wished: string) {
  const next = wished.trim();
  if (next !== "" && !runs.some((run) => run.name === next))
    runs = runs.map((run) => (run.name === name ? { ...run, name: next } : run));
  tell();
}

function take(name: string, parsed: Parsed) {
  if (parsed.kind === "problem") {
    problems = [...problems, parsed.message].slice(-6);
    return;
  }
  if (parsed.kind === "results") {
    setOwnResults(parsed.results);
    problems = [...problems, `results.json is open in the section “The tables”`].slice(-6);
    return;
  }
  const run: Run = { ...(runs.find((item) => item.name === name) ?? { name, notes: [] }) };
  if (parsed.kind === "metrics") {
    run.metrics = parsed.metrics;
    run.notes = [...run.notes, ...parsed.metrics.notes];
  } else if (parsed.kind === "config") {
    run.config = parsed.config;
    run.configText = parsed.text;
  } else if (parsed.kind === "result") run.result = parsed.result;
  else if (parsed.kind === "inspection") run.inspection = parsed.inspection;
  else run.weights = parsed.bytes;
  runs = runs.some((item) => item.name === name)
    ? runs.map((item) => (item.name === name ? run : item))
    : [...runs, run];
}

async function addBytes(run: string, name: string, bytes: Uint8Array) {
  let parsed: Parsed;
  try {
    parsed = await parseInWorker(name, bytes);
  } catch (error) {
    parsed = {
      kind: "problem",
      message: `${name} could not be read: ${String(error).slice(0, 120)}`,
    };
  }
  take(run, parsed);
  tell();
}

// Files of a picked or dropped folder carry their path; others are one run called after the first.
export async function addFiles(files: readonly { path: string; file: File }[]) {
  problems = [];
  tell();
  const single = `files ${runs.length + 1}`;
  for (const { path, file } of files) {
    const name = path.split("/").pop() ?? path;
    const folder = path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : single;
    if (folder !== single && !known(name)) continue; // a folder holds other things, too
    if (passedOver(name)) continue;
    if (file.size > limits.file)
      take(folder, { kind: "problem", message: tooLarge(name, file.size) });
    else await addBytes(folder, name, new Uint8Array(await file.arrayBuffer()));
  }
  tell();
}

// The runs that `geores explore --run` put into the page.
export async function addEmbedded(text: string) {
  const entries: unknown = JSON.parse(text);
  if (!Array.isArray(entries)) return;
  const encoder = new TextEncoder();
  for (const entry of entries as {
    name: string;
    files: Record<string, string>;
    weights?: string;
  }[]) {
    for (const [name, content] of Object.entries(entry.files))
      await addBytes(entry.name, name, encoder.encode(content));
    if (entry.weights) await addBytes(entry.name, "best.safetensors", bytesOf(entry.weights));
  }
}
