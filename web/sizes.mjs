// The page's size limits, in bytes: raw and gzipped.
import { gunzipSync, gzipSync } from "node:zlib";

export const budgets = {
  file: { name: "the file", raw: 1_350_000, packed: 1_000_000 },
  script: { name: "script", raw: 150_000, packed: 52_000 },
  operators: { name: "operators", raw: 80_000, packed: 40_000 },
  spectrum: { name: "spectrum", raw: 450_000, packed: 160_000 },
  predictor: { name: "predictor", raw: 60_000, packed: 25_200 },
  models: { name: "weights of the models", raw: 400_000, packed: 400_000 },
};

// The parts of a built page, unpacked.
export function partsOf(html) {
  const blocks = [...html.matchAll(/<script([^>]*)>([\s\S]*?)<\/script>/g)];
  const packed = (prefix) =>
    blocks
      .filter(([, attributes]) => attributes.includes(`id="${prefix}`))
      .map(([, , content]) => gunzipSync(Buffer.from(content, "base64")));
  return {
    file: Buffer.from(html),
    script: Buffer.from(blocks.find(([, attributes]) => attributes === "")?.[2] ?? ""),
    operators: packed("wasm-operators"),
    spectrum: packed("wasm-spectrum"),
    predictor: packed("wasm-predictor"),
    models: packed("model-"),
  };
}

// The size of each part and its limit; `over` names those that exceed it.
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
