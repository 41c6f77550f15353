// Builds the explorer: one HTML file with style, script, data and WebAssembly modules in it.
//   node build.mjs [--wasm DIR] [--models DIR] [--out FILE]
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { minify } from "terser";
import { faces, licence } from "./face.mjs";
import { budgets, checkSizes, partsOf } from "./sizes.mjs";
import { fromBlock, readTables } from "./tables.mjs";

const web = dirname(fileURLToPath(import.meta.url));
const root = resolve(web, "..");
const { values: options } = parseArgs({
  options: {
    wasm: { type: "string", default: join(root, "build/web/wasm") },
    out: { type: "string", default: join(root, "build/web/explorer.html") },
    models: { type: "string", default: join(web, "models") },
  },
});
const output = resolve(options.out);
mkdirSync(dirname(output), { recursive: true });

const read = (path) => readFileSync(join(root, path));
const json = (path) => JSON.parse(read(path).toString());
const moduleNames = ["operators", "predictor", "spectrum"];
const wasm = Object.fromEntries(
  moduleNames
    .map((name) => [name, join(options.wasm, `${name}.wasm`)])
    .filter(([, path]) => existsSync(path))
    .map(([name, path]) => [name, readFileSync(path)]),
);

async function bundle(entry, settings) {
  const result = await build({
    entryPoints: [join(web, "src", entry)],
    bundle: true,
    write: false,
    target: "es2022",
    logLevel: "warning",
    ...settings,
  });
  return result.outputFiles[0].text;
}

const tables = await readTables(join(web, "src"));
// The page's script calls h(type, props, ...children), which is shorter than the automatic way of
// JSX writes, and the names of some of our own components' properties are cut: names that are no key
// of any data.
const page = {
  minify: true,
  format: "iife",
  platform: "browser",
  charset: "utf8",
  tsconfigRaw: {
    compilerOptions: { jsx: "react", jsxFactory: "h", jsxFragmentFactory: "Fragment" },
  },
  inject: [join(web, "src/jsx.ts")],
  plugins: [fromBlock(join(web, "src"), tables)],
  mangleProps: /^(widget|xLabel|yLabel|xText|yText|refusal|sentence|colour)$/,
};
const bundled = await bundle("client.tsx", page);
// Terser gives the same short names in every function, which packs better.
const { code: script } = await minify(bundled, {
  ecma: 2022,
  toplevel: true,
  compress: { passes: 2, unsafe_arrows: true, pure_getters: true, inline: 1, reduce_funcs: false },
});
// The dark colours are once in the sources and twice in the page: for a dark system that was not
// overruled, and for the switch.
const dark = (await bundle("style/dark.css", { minify: true })).trim().replace(/^:root/, "");
const style =
  faces() +
  (await bundle("style.css", { minify: true, charset: "utf8" })) +
  `@media (prefers-color-scheme:dark){:root:not([data-theme=light])${dark}}:root[data-theme=dark]${dark}`;

// All C++ tests with their files, for the claims.
function testNames() {
  const names = new Map();
  const walk = (folder) => {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) walk(path);
      else if (entry.name.endsWith(".cpp"))
        for (const [, suite, test] of readFileSync(path, "utf8").matchAll(
          /\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)/g,
        ))
          names.set(`${suite}.${test}`, relative(root, path));
    }
  };
  for (const folder of ["geores", "lab", "tests"]) walk(join(root, folder));
  return names;
}

function commitOf(path) {
  try {
    const line = execFileSync("git", ["log", "-1", "--format=%h", "--", path], { cwd: root });
    return line.toString().trim() || "unknown";
  } catch {
    return "unknown";
  }
}

const licences = ["preact"]
  .map((name) => `${name}\n\n${readFileSync(join(web, "node_modules", name, "LICENSE"), "utf8")}`)
  .concat(`Linux Libertine\n\n${licence()}`)
  .concat(`geores\n\n${read("LICENSE")}`)
  .join("\n\n");

const models = existsSync(options.models)
  ? readdirSync(options.models).filter((name) => name.endsWith(".safetensors"))
  : [];
const model = Object.fromEntries(
  models.map((name) => [
    name.replace(".safetensors", ""),
    readFileSync(join(options.models, name)),
  ]),
);

// The first states: rendered by the same components with the same modules, here in Node.js.
const renderer = join(dirname(output), "prerender.mjs");
writeFileSync(
  renderer,
  await bundle("prerender.tsx", { format: "esm", platform: "node", target: "node18" }),
);
const { prerender } = await import(pathToFileURL(renderer));
const names = testNames();
// The first file has the paper's tables; the next three are experiments past the paper.
const files = [
  "results",
  "start",
  "explain",
  "orthogonal",
  "twelve_seeds",
  "gates",
  "explorer",
].map((name) => `docs/results/${name}.json`);
const [results, start, explain, orthogonal, twelve, gates, trained] = files.map(json);
for (const more of [start, explain, orthogonal]) results.experiments.push(...more.experiments);
const { body, data, leftOut } = await prerender({
  models: model,
  modules: Object.fromEntries(
    Object.entries(wasm).map(([name, bytes]) => [name, new WebAssembly.Module(bytes)]),
  ),
  results,
  twelve,
  gates,
  trained,
  commits: Object.fromEntries(files.map((file) => [file, commitOf(file)])),
  licences,
  testFile: (name) => names.get(name),
});

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
const policy = [
  "default-src 'none'",
  `script-src ${hash(script)} 'wasm-unsafe-eval'`,
  `style-src ${hash(style)}`,
  "font-src data:",
  "img-src data: blob:",
  "worker-src blob:",
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");
const modules = Object.entries(wasm);
const packedModule = ([name, bytes]) => packed(`wasm-${name}`, bytes);
const block = (id, value) =>
  `<script type="application/json" id="${id}">${JSON.stringify(value).replaceAll("<", "\\u003c")}</script>\n`;
const packed = (id, bytes) =>
  `<script type="application/octet-stream" id="${id}">${gzipSync(bytes, { level: 9 }).toString("base64")}</script>\n`;
if (script.includes("</script") || style.includes("</style"))
  throw new Error("the script or the style would end its own element");
// The data of the first widgets is before the script, the rest after it: the page becomes interactive while
// the parser still reads the large blocks.
const early = [
  ...modules.filter(([name]) => name === "operators").map(packedModule),
  packed("data", Buffer.from(JSON.stringify(data))),
];
const late = [
  ...modules.filter(([name]) => name !== "operators").map(packedModule),
  ...Object.entries(model).map(([name, bytes]) => packed(`model-${name}`, bytes)),
];
const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<meta name="description" content="What replaces x + F(x) in a transformer? Every operator to move by hand, every claim with its test, and what the gains come from.">
<title>What replaces x + F(x)? · geores explorer</title>
<link rel="icon" href="data:,">
<style>${style}</style>
</head>
<body>
${body}
${block("tables", tables)}${early.join("")}<script>${script}</script>
${late.join("")}${block("runs", [])}</body>
</html>
`;
writeFileSync(output, html);

const table = checkSizes(budgets, partsOf(html));
console.log(table.text);
if (leftOut.length)
  console.log(`left out, their module or weights are not built: ${leftOut.join(", ")}`);
console.log(`${output}: ${statSync(output).size} bytes`);
if (table.over.length) {
  console.error(`over budget: ${table.over.join(", ")}`);
  process.exit(1);
}
