// The pages that the program writes (comparison, inspection, reports): accessible, at four widths and in both
// themes, without a request and without a sideways scroll.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import test, { after, before } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { launch, temporary } from "./browser.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const fixtures = join(process.env.WASM ?? resolve(here, "../../../build/web/wasm"), "fixtures");
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let browser, address;
before(async () => {
  browser = await launch();
  const path = join(temporary(), "report.html");
  writeFileSync(path, execFileSync(fixtures, ["--page"]));
  address = pathToFileURL(path).href;
});
after(() => browser.close());

for (const width of [320, 390, 768, 1280])
  for (const colorScheme of ["light", "dark"])
    test(`a report at ${width} px, ${colorScheme}`, async () => {
      const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme });
      const page = await context.newPage();
      const asked = [];
      page.on("request", (request) => asked.push(request.url()));
      await page.goto(address);
      const seen = await page.evaluate(() => ({
        over: document.documentElement.scrollWidth - innerWidth,
        paper: getComputedStyle(document.body).backgroundColor,
        frame: getComputedStyle(document.querySelector(".panel svg > rect")).fill,
        // Of one chart: the size of its text as it is drawn.
        text: Math.min(
          ...[...document.querySelectorAll(".panel svg text")].map(
            (text) =>
              parseFloat(getComputedStyle(text).fontSize) *
              (text.ownerSVGElement.getScreenCTM()?.a ?? 1),
          ),
        ),
        columns: new Set(
          [...document.querySelectorAll(".panel")].map((panel) =>
            Math.round(panel.getBoundingClientRect().left),
          ),
        ).size,
      }));
      assert.ok(seen.over <= 0, `wider than the window by ${seen.over} px`);
      assert.equal(seen.paper, colorScheme === "dark" ? "rgb(21, 23, 27)" : "rgb(252, 251, 248)");
      assert.equal(seen.frame, colorScheme === "dark" ? "rgb(27, 30, 35)" : "rgb(255, 255, 255)");
      assert.ok(seen.text >= 8.5, `text of ${seen.text} px in a chart`);
      assert.equal(seen.columns, width < 800 ? 1 : 2);
      assert.deepEqual(asked, [address]);
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() =>
        globalThis.axe.run(document, { resultTypes: ["violations"] }),
      );
      assert.deepEqual(
        violations.map((item) => `${item.id}: ${item.nodes[0].html.slice(0, 160)}`),
        [],
      );
      await context.close();
    });
