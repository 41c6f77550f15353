// Shared by the unit tests: the page's own TypeScript, bundled for Node.js, and the modules.
import { existsSync, readFileSync } from "node:fs";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

export const web = resolve(dirname(fileURLToPath(import.meta.url)), "../..");
export const root = resolve(web, "..");
export const wasmFolder = process.env.WASM ?? join(root, "build/web/wasm");
const folder = mkdtempSync(join(tmpdir(), "explorer-unit-"));

// Everything that the named files export, as one module.
export async function load(...files) {
  const contents = files.map((file) => `export * from "./src/${file}";`).join("\n");
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: web, loader: "ts" },
    bundle: true,
    write: false,
    format: "esm",
    platform: "node",
    jsx: "automatic",
    jsxImportSource: "preact",
    logLevel: "error",
  });
  const path = join(folder, `${files.join("_").replace(/\W/g, "_")}.mjs`);
  writeFileSync(path, outputFiles[0].text);
  return import(pathToFileURL(path));
}

export const wasmFile = (name) => join(wasmFolder, `${name}.wasm`);
export const hasModule = (name) => existsSync(wasmFile(name));

const engine = await load("engine/modules.ts", "engine/layout.ts");
export const { Module, Refusal, layouts } = engine;
export const start = (name) =>
  new Module(name, new WebAssembly.Module(readFileSync(wasmFile(name)))).startNow();

export const close = (actual, expected, tolerance) =>
  Math.abs(actual - expected) <= tolerance * Math.max(1, Math.abs(expected));
