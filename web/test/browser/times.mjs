// The page's times, each measured once: what speed.test.mjs holds to its limits and measure.mjs prints.
import { open } from "./browser.mjs";

export const limits = {
  paint: { name: "first paint, from disk", limit: 300, unit: "ms" },
  alive: { name: "all early widgets alive", limit: 1000, unit: "ms" },
  median: { name: "drag on gate, median", limit: 4, unit: "ms" },
  slow: { name: "drag on gate, 95 %", limit: 16, unit: "ms" },
  gap: { name: "longest gap, spectrum dragged", limit: 50, unit: "ms" },
  heap: { name: "script heap", limit: 100, unit: "MB" },
};

export async function loading(browser) {
  const { page, context } = await open(browser);
  const times = await page.evaluate(() => ({
    paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? NaN,
    alive: performance.now(),
  }));
  const cdp = await context.newCDPSession(page);
  await cdp.send("HeapProfiler.collectGarbage");
  const { totalSize } = await cdp.send("Runtime.getHeapUsage");
  await context.close();
  return { ...times, heap: totalSize / 1e6 };
}

// Handler, render and layout of sixty small steps of a slider.
export async function dragging(browser) {
  const { page, context } = await open(browser, { hash: "#gate" });
  const times = await page.evaluate(async () => {
    const input = document.querySelector("[data-widget=gate] input[name=gamma]");
    const image = document.querySelector("[data-widget=gate] svg circle.area");
    const taken = [];
    for (let i = 0; i < 60; ++i) {
      const before = image.getAttribute("transform");
      const started = performance.now();
      input.value = String(0.2 + 0.01 * i);
      input.dispatchEvent(new Event("input", { bubbles: true }));
      for (let turn = 0; turn < 20 && image.getAttribute("transform") === before; ++turn)
        await null;
      image.getBoundingClientRect(); // layout, too
      if (image.getAttribute("transform") === before) throw new Error(`step ${i} drew nothing`);
      taken.push(performance.now() - started);
      await new Promise((done) => setTimeout(done, 10));
    }
    return taken.sort((a, b) => a - b);
  });
  await context.close();
  return { median: times[30], slow: times[57] };
}

// The depth of `spectrum` dragged through twenty values in a second, on a page that stays open; how
// long the page was unresponsive at most.
export async function dragSpectrum(page) {
  await page.waitForSelector("[data-widget=spectrum][data-alive=yes]");
  await page.evaluate(async () => {
    const input = document.querySelector("[data-widget=spectrum] input[name=L]");
    globalThis.longest = 0;
    let last = performance.now();
    const tick = () => {
      const now = performance.now();
      globalThis.longest = Math.max(globalThis.longest, now - last);
      last = now;
      setTimeout(tick, 5);
    };
    tick();
    for (let i = 0; i < 20; ++i) {
      input.value = String(2 + i);
      input.dispatchEvent(new Event("input", { bubbles: true }));
      await new Promise((done) => setTimeout(done, 50));
    }
  });
  await page.waitForSelector("[data-widget=spectrum] .working", {
    state: "detached",
    timeout: 60_000,
  });
  return page.evaluate(() => globalThis.longest);
}

export async function gap(browser) {
  const { page, context } = await open(browser, { hash: "#spectrum" });
  const longest = await dragSpectrum(page);
  await context.close();
  return { gap: longest };
}
