// The sources keep the page's rules, and the built page its promises.
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { load, root, web } from "./sources.mjs";
import { budgets, checkSizes } from "../../sizes.mjs";
import { readTables } from "../../tables.mjs";

const sources = (folder) =>
  readdirSync(join(web, folder), { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? sources(join(folder, entry.name)) : [join(folder, entry.name)],
  );
const text = (path) => readFileSync(join(web, path), "utf8");
const code = sources("src").filter((path) => /\.tsx?$/.test(path));

test("TypeScript computes no operator: transcendental functions only in charts and engine", () => {
  for (const path of code) {
    if (/^src\/(charts|engine)\//.test(path)) continue;
    const found = /Math\.(exp|tanh|atan2?|hypot|sqrt|sin|cos|tan)\b/.exec(text(path));
    assert.equal(found, null, `${path}: ${found?.[0]}`);
  }
});

test("no figure is typed into the story", () => {
  for (const path of code.filter((item) => item.startsWith("src/story/"))) {
    const prose = text(path)
      .replace(/tex="[^"]*"/g, "")
      .replace(/by: "[^"]*"/g, "");
    const found = /\d(?:\.\d+)?e[-+]?\d|\d\s*[±×]|[±×]\s*\d/.exec(prose);
    assert.equal(found, null, `${path}: ${found?.[0]}`);
  }
});

test("no inline style and no inline handler, which the policy would refuse", () => {
  for (const path of code)
    assert.doesNotMatch(text(path), /<\w[^>]*\sstyle=|innerHTML =|eval\(|new Function/, path);
});

test("no file is longer than 500 lines, no folder holds more than 25 sources", () => {
  const folders = new Map();
  for (const path of sources("src")) {
    assert.ok(text(path).split("\n").length <= 500, path);
    const folder = path.slice(0, path.lastIndexOf("/"));
    folders.set(folder, (folders.get(folder) ?? 0) + 1);
  }
  for (const [folder, count] of folders) assert.ok(count <= 25, `${folder}: ${count}`);
});

test("every published, measured and no-model figure equals its source", async () => {
  const { Figures } = await load("numbers/figures.ts");
  const json = (name) => JSON.parse(readFileSync(join(root, "docs/results", name), "utf8"));
  const results = json("results.json");
  const figures = new Figures(results, json("twelve_seeds.json"), json("gates.json"));
  const stability = results.experiments[0].columns.find((column) => column.name === "stability");
  const edelta = stability.arms.find((arm) => arm.name === "edelta");
  assert.equal(figures.text("main/stability/edelta/published"), "(4.35 ± 0.27)·10⁻⁶");
  assert.equal(
    Number(figures.text("main/stability/edelta/published").slice(1).split(" ")[0]) * 1e-6,
    edelta.published.mean,
  );
  assert.equal(figures.text("main/stability/no_model/running_mean"), "1.04·10⁻⁶");
  assert.equal(figures.text("lost/0.1"), "3 of 12");
  assert.equal(figures.text("reflection_published/edelta/gate"), "0.051");
  assert.throws(() => figures.text("main/stability/unknown/best"), /is not in docs\/results/);
  assert.throws(() => figures.text("claim/no such claim/verdict"), /is not in docs\/results/);
});

test("a size over its limit is named", () => {
  const parts = Object.fromEntries(Object.keys(budgets).map((key) => [key, [Buffer.alloc(10)]]));
  assert.deepEqual(checkSizes(budgets, parts).over, []);
  assert.deepEqual(checkSizes(budgets, { ...parts, script: [Buffer.alloc(200_000)] }).over, [
    "script",
  ]);
});

const file = process.env.EXPLORER ?? join(root, "build/web/explorer.html");
const page = existsSync(file) ? readFileSync(file, "utf8") : null;
const words = page
  ?.replace(/<script[\s\S]*?<\/script>|<style[\s\S]*?<\/style>/g, "")
  .replace(/<ul class="claims"[\s\S]*?<\/ul>/g, "") // claims are quoted there, with their verdict
  .replace(/<[^>]+>/g, " ");

test("the page says none of the statements that are wrong", { skip: !page && "not built" }, () => {
  for (const wrong of [
    /pushes γ toward/i,
    /toward 1\b/i,
    /jumps to −1/i,
    /det(erminant)? (is )?−1 (of|for) DDL/i,
    /exactly orthogonal for all β/i,
    /the gate (chooses|chose) the reflection/i,
  ])
    assert.doesNotMatch(words, wrong);
});

test(
  "the page has fourteen sections, each with a first drawing and no address to fetch",
  { skip: !page && "not built" },
  () => {
    const ids = [...page.matchAll(/data-widget="(\w+)"/g)].map(([, id]) => id);
    assert.deepEqual(ids, [
      "film",
      "drift",
      "streams",
      "turn",
      "missing",
      "gate",
      "trap",
      "iterative",
      "spectrum",
      "predict",
      "results",
      "start",
      "seeds",
      "yours",
    ]);
    assert.doesNotMatch(
      page.replace(/xmlns="[^"]*"|http:\/\/www\.w3\.org\/\S+/g, ""),
      /<(?:img|link|script|iframe)[^>]+(?:src|href)="https?:/,
    );
    assert.equal(page.split('<script type="application/json" id="runs">[]</script>').length, 2);
    assert.doesNotMatch(page.replace(/<script[\s\S]*?<\/script>/g, ""), /\sstyle="/);
  },
);

test("the page's block of tables equals the sources", { skip: !page && "not built" }, async () => {
  const [, block] = /<script type="application\/json" id="tables">(.*?)<\/script>/.exec(page);
  const tables = JSON.parse(block);
  assert.deepEqual(tables, await readTables(join(web, "src")));
  assert.equal(Object.keys(tables).length, 15); // fourteen widgets, and the modules' structs
  assert.equal(tables.gate.fields.gamma.first, 0.5);
});

test("the pages that geores writes have the explorer's colours, light and dark", () => {
  const style = readFileSync(join(root, "geores/base/pages/page_style.h"), "utf8");
  const [light, dark] = style.split("prefers-color-scheme:dark");
  const colours = (css) =>
    Object.fromEntries(
      [...css.matchAll(/--([\w-]+):\s*(#[0-9a-f]{6})/g)].map(([, name, value]) => [name, value]),
    );
  for (const [ours, theirs] of [
    [colours(light), colours(text("src/style/page.css"))],
    [colours(dark), colours(text("src/style/dark.css"))],
  ]) {
    assert.ok(Object.keys(ours).length >= 10);
    for (const [name, value] of Object.entries(ours))
      if (name !== "tint") assert.equal(value, theirs[name], name);
  }
});
