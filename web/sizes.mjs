// The page's size limits, in bytes: raw and gzipped.
import { gzipSync } from "node:zlib";

export const budgets = {
  file: { name: "the file", raw: 1_200_000, packed: 850_000 },
  script: { name: "script", raw: 128_000, packed: 48_000 },
  operators: { name: "operators", raw: 80_000, packed: 40_000 },
  spectrum: { name: "spectrum", raw: 450_000, packed: 160_000 },
  predictor: { name: "predictor", raw: 125_000, packed: 50_000 },
  // The page carries them gzipped.
  models: { name: "weights of the models", raw: Infinity, packed: 400_000 },
};

// What each part weighs beside its limit; `over` names those that exceed it.
export function checkSizes(limits, parts) {
  const over = [];
  const lines = Object.entries(limits).map(([key, limit]) => {
    const pieces = [parts[key]].flat();
    const raw = pieces.reduce((sum, piece) => sum + piece.length, 0);
    const packed = pieces.reduce((sum, piece) => sum + gzipSync(piece, { level: 9 }).length, 0);
    const bad = raw > limit.raw || packed > limit.packed;
    if (bad) over.push(limit.name);
    const kilo = (bytes) => (bytes === Infinity ? "–" : (bytes / 1000).toFixed(1)).padStart(8);
    return `${limit.name.padEnd(28)}${kilo(raw)} of${kilo(limit.raw)} kB, gzipped${kilo(packed)} of${kilo(limit.packed)} kB${bad ? "  OVER" : ""}`;
  });
  return { text: lines.join("\n"), over };
}
