// Pictures of every section for a person to look at:
//   node test/browser/shots.mjs OUT [ID…]
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { launch, open } from "./browser.mjs";

const [out = "../build/web/shots", ...only] = process.argv.slice(2);
mkdirSync(out, { recursive: true });
const browser = await launch();
for (const width of [390, 820, 1280])
  for (const theme of ["light", "dark"]) {
    const { page, said } = await open(browser, {
      viewport: { width, height: 900 },
      colorScheme: theme,
      deviceScaleFactor: width < 600 ? 2 : 1,
    });
    // The late widgets wake up, and those out of sight are drawn, too.
    await page.evaluate(() => {
      for (const island of document.querySelectorAll("[data-widget]")) {
        island.style.contentVisibility = "visible";
        if ("late" in island.dataset) island.scrollIntoView();
      }
    });
    await page.waitForTimeout(300);
    const ids = await page.$$eval("main > section", (items) => items.map((item) => item.id));
    for (const id of ids) {
      if (only.length && !only.includes(id)) continue;
      const box = await page.$eval(`#${id}`, (item) => {
        const { y, height } = item.getBoundingClientRect();
        return { y: y + scrollY, height };
      });
      await page.screenshot({
        path: join(out, `${id}-${width}-${theme}.png`),
        fullPage: true,
        clip: {
          x: width > 1000 ? 190 : 0,
          y: box.y,
          width: width > 1000 ? 900 : width,
          height: box.height,
        },
      });
    }
    if (!only.length) await page.screenshot({ path: join(out, `top-${width}-${theme}.png`) });
    if (said.length) console.log(width, theme, said);
  }
// The README's picture: docs/figures/explorer.png
const { page } = await open(browser, {
  hash: "#gate",
  viewport: { width: 1280, height: 1000 },
  colorScheme: "light",
});
await page.addStyleTag({ content: ".bar{display:none}" }).catch(() => {});
await page.waitForTimeout(800);
await page.locator("[data-widget=gate] figure").screenshot({ path: join(out, "explorer.png") });
await browser.close();
