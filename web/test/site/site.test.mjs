// Pages of the documentation site in a headless Chromium, opened from disk, at two widths in both themes.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { launch } from "../browser/browser.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const site = process.env.SITE ?? resolve(here, "../../../build/site");
const address = (page) => pathToFileURL(resolve(site, page)).href;
const pages = [
  "index.html",
  "start/which_connection.html",
  "understand/connections/mhc.html",
  "reference/command_line.html",
  "notebook/shc_results.html",
];

let browser;
before(async () => {
  assert.ok(existsSync(resolve(site, "index.html")), "scripts/docs builds the site");
  browser = await launch();
});
after(() => browser?.close());

// Console lines, errors and requests that leave the site or fail.
async function open(page_name, { width, theme }) {
  const context = await browser.newContext({
    viewport: { width, height: 900 },
    colorScheme: theme,
  });
  const page = await context.newPage();
  const wrong = [];
  page.on("console", (message) => wrong.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => wrong.push(`error: ${error}`));
  page.on("requestfailed", (request) => wrong.push(`failed: ${request.url()}`));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(pathToFileURL(site).href) && !/^(data|blob):/.test(url))
      wrong.push(`asks for ${url}`);
  });
  await page.goto(address(page_name));
  await page.waitForTimeout(200);
  return { page, context, wrong };
}

for (const name of pages)
  for (const width of [390, 1280])
    for (const theme of ["light", "dark"])
      test(`${name} at ${width} px, ${theme}`, async () => {
        const { page, context, wrong } = await open(name, { width, theme });
        assert.deepEqual(wrong, []);
        const { over, scheme } = await page.evaluate(() => ({
          over: document.documentElement.scrollWidth - innerWidth,
          scheme: document.body.dataset.mdColorScheme,
        }));
        assert.ok(over <= 0, `wider than the window by ${over} px`);
        assert.equal(scheme, theme === "dark" ? "slate" : "default");
        await context.close();
      });

test("search finds a page without a server", async () => {
  const { page, context, wrong } = await open("index.html", { width: 1280, theme: "light" });
  await page.click(".md-search__input");
  await page.keyboard.type("Sinkhorn");
  await page.waitForSelector(".md-search-result__link", { timeout: 10000 });
  const links = await page.$$eval(".md-search-result__link", (all) => all.map((a) => a.href));
  assert.ok(links.some((link) => link.includes("mhc")));
  assert.ok(links.every((link) => link.startsWith("file:")));
  assert.deepEqual(wrong, []);
  await context.close();
});

test("the switch changes the theme, and the next page keeps it", async () => {
  const { page, context, wrong } = await open("index.html", { width: 1280, theme: "light" });
  await page.click("label[for=__palette_2]");
  assert.equal(await page.evaluate(() => document.body.dataset.mdColorScheme), "slate");
  await page.goto(address("understand/spectra.html"));
  assert.equal(await page.evaluate(() => document.body.dataset.mdColorScheme), "slate");
  assert.deepEqual(wrong, []);
  await context.close();
});

test("the explorer opens inside the site, where it was built", async (t) => {
  if (!existsSync(resolve(site, "explorer.html")))
    return t.skip("scripts/explore --build makes it");
  const { page, context, wrong } = await open("guides/explorer.html", {
    width: 1280,
    theme: "light",
  });
  await page.click("a.md-button");
  await page.waitForSelector("html[data-alive=yes]", { state: "attached" });
  assert.deepEqual(wrong, []);
  await context.close();
});
