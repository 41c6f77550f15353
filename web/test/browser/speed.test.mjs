// Times of the page, with a factor of three for shared machines.
import assert from "node:assert/strict";
import test, { after, before } from "node:test";
import { launch, open, settle } from "./browser.mjs";
import { dragging, dragSpectrum, limits, loading } from "./times.mjs";

const patience = 3;
let browser;
before(async () => {
  browser = await launch();
});
after(() => browser.close());

function hold(measured) {
  for (const [key, value] of Object.entries(measured)) {
    const { name, limit, unit } = limits[key];
    console.log(`${name}: ${value.toFixed(1)} of ${limit} ${unit}`);
    assert.ok(value < limit * (unit === "ms" ? patience : 1), `${name}: ${value} ${unit}`);
  }
}

test("first paint, the first screen alive, memory", async () => hold(await loading(browser)));
test("a drag: handler and render", async () => hold(await dragging(browser)));

test("spectrum: the depth dragged through twenty values in a second; the last one wins", async () => {
  const { page, context, said } = await open(browser, { hash: "#spectrum" });
  const longest = await dragSpectrum(page);
  await settle(page, 700);
  assert.match(
    await page.textContent("[data-widget=spectrum] figcaption"),
    /After 21 random layers/,
  );
  const drawn = await page.getAttribute("[data-widget=spectrum] path[data-curve=theory]", "d");
  const fresh = await open(browser, { hash: "#spectrum?L=21" });
  await fresh.page
    .waitForSelector("[data-widget=spectrum] .working", { timeout: 10_000 })
    .catch(() => {});
  await fresh.page.waitForSelector("[data-widget=spectrum] .working", {
    state: "detached",
    timeout: 60_000,
  });
  await settle(fresh.page, 300);
  assert.equal(
    drawn,
    await fresh.page.getAttribute("[data-widget=spectrum] path[data-curve=theory]", "d"),
  );
  hold({ gap: longest });
  assert.deepEqual(said, []);
  await fresh.context.close();
  await context.close();
});
