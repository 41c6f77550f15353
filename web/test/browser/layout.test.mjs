// Four widths, both themes: no sideways scroll, nothing over anything else, axe finds nothing.
// EXPLORER_WIDTHS=390,1280 narrows the matrix.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import test, { after, before } from "node:test";
import { launch, open, settle } from "./browser.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const widths = (process.env.EXPLORER_WIDTHS ?? "320,390,768,1280").split(",").map(Number);
let browser;
before(async () => {
  browser = await launch();
});
after(() => browser.close());

// Brings the late widgets to life, too.
async function wake(page) {
  for (const island of await page.$$("[data-late]")) {
    await island.scrollIntoViewIfNeeded();
    const id = await island.getAttribute("data-widget");
    await page.waitForSelector(`[data-widget=${id}][data-alive=yes]`, { timeout: 10_000 });
  }
  await page.evaluate(() => scrollTo(0, 0));
}

const overlaps = () => {
  const found = [];
  const box = (element) => element.getBoundingClientRect();
  const cross = (a, b) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1.5 &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1.5;
  const compare = (where, elements) => {
    const shown = elements.filter((item) => box(item).width > 2 && box(item).height > 2);
    shown.forEach((a, i) => {
      for (const b of shown.slice(i + 1))
        if (cross(box(a), box(b)))
          found.push(`${where}: ${a.textContent.slice(0, 30)} / ${b.textContent.slice(0, 30)}`);
    });
  };
  for (const widget of document.querySelectorAll("[data-widget]")) {
    const id = widget.dataset.widget;
    const figure = widget.querySelector("figure");
    compare(`${id} parts`, [...figure.children]);
    compare(`${id} panels`, [...figure.querySelector(".drawings").children]);
    for (const controls of figure.querySelectorAll(".controls"))
      compare(`${id} controls`, [...controls.children]);
    for (const axis of figure.querySelectorAll(".axis"))
      compare(`${id} axis`, [...axis.querySelectorAll("text")]);
  }
  return found;
};

for (const width of widths)
  test(`${width} px, light and dark`, async () => {
    const { page, context, said, asked } = await open(browser, {
      viewport: { width, height: 900 },
      colorScheme: "light",
      hasTouch: width < 700,
    });
    await wake(page);
    await page.evaluate(axe);
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      // A widget is clipped at its own box (content-visibility), so its figure is asked, too.
      const sideways = await page.evaluate(() =>
        Math.max(
          document.documentElement.scrollWidth - innerWidth,
          ...[...document.querySelectorAll("[data-widget] figure")].map(
            (figure) => figure.getBoundingClientRect().left + figure.scrollWidth - innerWidth,
          ),
        ),
      );
      assert.ok(sideways <= 0, `the page is ${sideways} px too wide`);
      assert.deepEqual(await page.evaluate(overlaps), []);
      // Of axe's rules only that of contrast looks at colours: the second theme needs no other.
      const { violations } = await page.evaluate(
        (dark) =>
          globalThis.axe.run(document, {
            resultTypes: ["violations"],
            ...(dark && { runOnly: ["color-contrast", "link-in-text-block"] }),
          }),
        colorScheme === "dark",
      );
      assert.deepEqual(
        violations.map(
          (item) =>
            `${colorScheme}, ${item.id}: ${item.nodes
              .slice(0, 3)
              .map((node) => node.html.slice(0, 160) + " " + (node.any[0]?.message ?? ""))
              .join(" | ")}`,
        ),
        [],
      );
    }
    assert.deepEqual(said, []);
    assert.deepEqual(asked, []);
    await context.close();
  });

test("on a touch screen everything that is tapped is at least 44 px high", async () => {
  const { page, context } = await open(browser, {
    viewport: { width: 390, height: 844 },
    hasTouch: true,
    isMobile: true,
  });
  await wake(page);
  const low = await page.$$eval(
    "[data-widget] :is(button, select, .number, .segments span, .checks label, summary, .file-button, input[type=range]:not(.hidden-input)), [data-widget] .grip",
    (items) =>
      items
        .filter((item) => item.getClientRects().length > 0)
        .map((item) => [item.getBoundingClientRect().height, item.outerHTML.slice(0, 100)])
        .filter(([height]) => height < 43.5)
        .map(([height, html]) => `${height.toFixed(0)} px: ${html}`),
  );
  assert.deepEqual([...new Set(low)], []);
  await context.close();
});

test("reduced motion and forced colours: alive, nothing said", async () => {
  const { page, context, said } = await open(browser, {
    reducedMotion: "reduce",
    forcedColors: "active",
  });
  await page.click("[data-widget=trap] button:has-text('Let it roll')");
  await settle(page);
  assert.equal(
    await page.locator("[data-widget=trap] button[aria-pressed=true]:has-text('Pause')").count(),
    0,
  );
  assert.deepEqual(said, []);
  await context.close();
});

test("the whole page can be walked with Tab, and focus is always to be seen", async () => {
  const { page, context } = await open(browser);
  await wake(page);
  const reached = new Set();
  let last = "";
  for (let i = 0; i < 600; ++i) {
    await page.keyboard.press("Tab");
    const now = await page.evaluate(() => {
      const element = document.activeElement;
      if (!element || element === document.body) return null;
      const widget = element.closest("[data-widget]")?.dataset.widget ?? "page";
      const hidden = element.classList.contains("hidden-input");
      const ring = hidden
        ? element.closest(".drawing, .scrub, .file-button") !== null
        : getComputedStyle(element).outlineStyle !== "none" ||
          element.closest(".segments") !== null ||
          element.classList.contains("pick");
      return { widget, ring, html: element.outerHTML.slice(0, 120) };
    });
    if (!now) break;
    assert.ok(now.ring, `no focus ring: ${now.html}`);
    reached.add(now.widget);
    last = now.html;
  }
  assert.equal(reached.size, 15, `reached ${[...reached]}; last ${last}`);
  await context.close();
});
