// The reader's own files.
import assert from "node:assert/strict";
import {
  closeSync,
  cpSync,
  mkdirSync,
  openSync,
  readFileSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";
import test, { after, before } from "node:test";
import { fileURLToPath } from "node:url";
import { file, launch, open, settle, temporary } from "./browser.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const sample = resolve(here, "../data/run");
const results = resolve(here, "../../../docs/results/results.json");
let browser;
before(async () => {
  browser = await launch();
});
after(() => browser.close());

const inputs = "[data-widget=yours] input[data-input=files]";
const chosen = async (files) => {
  const opened = await open(browser, { hash: "#yours" });
  await opened.page.setInputFiles(inputs, files);
  return opened;
};
const runFiles = ["metrics.jsonl", "config.json", "result.json", "inspection.json"].map((name) =>
  join(sample, name),
);

test("a real run: its curves have as many points as its file has lines", async () => {
  const { page, context, said } = await chosen(runFiles);
  await page.waitForSelector("[data-widget=yours] path[data-points]");
  await settle(page, 300);
  const lines = readFileSync(runFiles[0], "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  const points = await page.$$eval("[data-widget=yours] path[data-points]", (paths) =>
    paths.map((path) => [
      Number(path.dataset.points),
      path.getAttribute("d").split(/[ML]/).length - 1,
    ]),
  );
  const training = lines.filter((line) => "loss" in line).length;
  const evaluations = lines.filter((line) => "validation" in line).length;
  assert.deepEqual(points, [
    [training, training],
    [evaluations, evaluations],
    [training, training],
    [training, training],
  ]);
  for (const tab of ["gates", "inspection"]) {
    await page.click(`[data-widget=yours] label:has-text('${tab}')`);
    await page.waitForSelector("[data-widget=yours] [data-points]");
    assert.ok((await page.locator("[data-widget=yours] [data-points]").count()) >= 1, tab);
  }
  await page.click("[data-widget=yours] label:has-text('Jacobian')");
  await page.waitForSelector("[data-widget=yours] .histogram");
  await page.click("[data-widget=yours] button:has-text('Remove')");
  (await page.waitForFunction) === undefined;
  await settle(page, 100);
  assert.equal(await page.locator("[data-widget=yours] .run-list").count(), 0);
  assert.deepEqual(said, []);
  await context.close();
});

test("a broken file gives its message, and the page goes on", async () => {
  const folder = temporary();
  const broken = join(folder, "metrics.jsonl");
  writeFileSync(broken, '{"step":0,"loss":1}\n{"step":1,"loss":"x"}\n');
  const { page, context, said } = await chosen([broken]);
  await page.waitForSelector("[data-widget=yours] .problems");
  assert.match(
    await page.textContent("[data-widget=yours] .problems"),
    /metrics\.jsonl line 2: "loss" is not a number/,
  );
  await page.setInputFiles(inputs, runFiles);
  await page.waitForSelector("[data-widget=yours] path[data-points]");
  assert.deepEqual(said, []);
  await context.close();
});

test("200 MB of garbage, and 60 MB of it within the limit: a message, and the page stays responsive", async () => {
  const folder = temporary();
  const make = (name, megabytes) => {
    const path = join(folder, name);
    const handle = openSync(path, "w");
    const block = Buffer.alloc(1e6, '{"step": [[[[');
    for (let i = 0; i < megabytes; ++i) writeSync(handle, block);
    closeSync(handle);
    return path;
  };
  const { page, context, said } = await open(browser, { hash: "#yours" });
  await page.evaluate(() => {
    globalThis.longest = 0;
    let last = performance.now();
    const tick = () => {
      const now = performance.now();
      globalThis.longest = Math.max(globalThis.longest, now - last);
      last = now;
      setTimeout(tick, 10);
    };
    tick();
  });
  await page.setInputFiles(inputs, [
    make("metrics.jsonl", 200),
    make("inspection.json", 60),
    make("best.safetensors", 60),
  ]);
  await page.waitForSelector("[data-widget=yours] .problems li:nth-child(3)", { timeout: 60_000 });
  const told = await page.textContent("[data-widget=yours] .problems");
  assert.match(told, /metrics\.jsonl: 200000000 bytes, the limit is 64000000/);
  assert.match(told, /inspection\.json: not JSON/);
  assert.match(told, /best\.safetensors: header length/);
  const longest = await page.evaluate(() => globalThis.longest);
  assert.ok(longest < 1500, `the page was unresponsive for ${longest} ms`);
  assert.deepEqual(said, []);
  await context.close();
});

test("a results.json opens in the section of the tables", async () => {
  const folder = temporary();
  const path = join(folder, "results.json");
  const own = JSON.parse(readFileSync(results, "utf8"));
  own.experiments[0].columns[1].arms[0].label = "A row of my own";
  writeFileSync(path, JSON.stringify(own));
  const { page, context } = await chosen([path]);
  await page.waitForSelector("[data-widget=results] .row-label:has-text('A row of my own')");
  await context.close();
});

test("runs that are in the page are drawn when it opens", async () => {
  const folder = temporary();
  const text = (name) => readFileSync(join(sample, name), "utf8");
  const runs = ["first", "second"].map((name) => ({
    name: `runs/${name}`,
    files: Object.fromEntries(
      ["metrics.jsonl", "config.json", "result.json"].map((item) => [item, text(item)]),
    ),
  }));
  const block = '<script type="application/json" id="runs">';
  const html = readFileSync(file, "utf8").replace(
    `${block}[]`,
    () => block + JSON.stringify(runs).replace(/</g, "\\u003c"),
  );
  const path = join(folder, "explorer.html");
  writeFileSync(path, html);
  const context = await browser.newContext();
  const page = await context.newPage();
  const said = [];
  page.on("console", (message) => said.push(message.text()));
  await page.goto(`file://${path}`);
  await page.waitForSelector("[data-widget=yours] .run-list li:nth-child(2)", {
    state: "attached",
  });
  await settle(page, 300);
  assert.equal(await page.locator("[data-widget=yours] path[data-points]").count(), 8);
  assert.match(await page.textContent("[data-widget=yours] .run-list"), /runs\/first/);
  assert.deepEqual(said, []);
  await context.close();
});

test("a folder is read as one run", async () => {
  const folder = temporary();
  mkdirSync(join(folder, "mine"));
  cpSync(sample, join(folder, "mine"), { recursive: true });
  writeFileSync(join(folder, "mine", "notes.txt"), "not ours");
  const { page, context } = await open(browser, { hash: "#yours" });
  await page.setInputFiles("[data-widget=yours] input[data-input=folder]", join(folder, "mine"));
  await page.waitForSelector("[data-widget=yours] .run-list li");
  await settle(page, 400);
  assert.match(await page.textContent("[data-widget=yours] .run-list"), /mine: edelta/);
  assert.equal(await page.locator("[data-widget=yours] .problems").count(), 0);
  await context.close();
});
