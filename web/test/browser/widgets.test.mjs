// Every widget, in a real browser: there without scripts; moved by keys, by mouse and by touch; put
// back by Reset; brought back by its link. The test compares the drawing, not the text.
import assert from "node:assert/strict";
import test, { after, before } from "node:test";
import { launch, open, page_url, settle } from "./browser.mjs";

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser.close());

// How each widget is moved: `keys` on an input, `pull` a handle or `click` a point.
const widgets = {
  film: { keys: ["input[name=gamma]", "ArrowLeft"], press: "button:has-text('Switch the branch')" },
  drift: { keys: ["input[name=L]", "ArrowLeft"], press: "button:has-text('Add the branch')" },
  streams: {
    keys: ["input[name=layers]", "ArrowRight"],
    press: "label:has-text('as initialised')",
  },
  turn: { keys: ["input[name=beta]", "ArrowRight"], pull: "arc" },
  missing: { keys: ["input[name=bm]", "ArrowRight"], pull: "pair" },
  gate: { keys: ["input[name=gamma]", "ArrowRight"], pull: "k", by: [-30, -25] },
  trap: { keys: ["input[name=t]", "ArrowRight"], pull: "ball" },
  iterative: { keys: ["input[name=m]", "ArrowRight"], pull: "m" },
  spectrum: {
    keys: ["input[name=L]", "ArrowRight"],
    press: "button:has-text('Play depth')",
    slow: true,
  },
  predict: { keys: ["input[name=t]", "ArrowRight"], pull: "guess", slow: true },
  results: { keys: ["select[name=table]", "ArrowDown"], press: ".claim-button >> nth=0" },
  start: {
    keys: ["input[name=start-task]:checked", "ArrowRight"],
    press: "label:has-text('stability')",
  },
  seeds: { keys: [".pick[tabindex='0']", "ArrowDown"], press: ".pick >> nth=71" },
};

const drawing = (page, id) =>
  page.$eval(`[data-widget=${id}] .drawings`, (element) =>
    [...element.querySelectorAll("svg, .mixer, .rows")]
      .map((part) => part.outerHTML)
      .join("\n")
      .replace(/ (focused|held)\b| tabindex="[^"]*"/g, ""),
  );

// One page for mouse and keys and one for fingers serve all widgets: each test leaves its widget as it
// found it.
const shared = new Map();
async function at(id, kind = "mouse") {
  if (!shared.has(kind))
    shared.set(
      kind,
      await open(browser, {
        hash: `#${id}`,
        ...(kind === "finger" && {
          viewport: { width: 390, height: 844 },
          hasTouch: true,
          isMobile: true,
        }),
      }),
    );
  const opened = shared.get(kind);
  await show(opened.page, id);
  return opened;
}

async function show(page, id) {
  await page.$eval(`#${id}`, (section) => section.scrollIntoView());
  await page.waitForSelector(`[data-widget=${id}][data-alive=yes]`);
  await page.$eval(`[data-widget=${id}]`, (element) => element.scrollIntoView());
}

// Waits until the drawing is other than `before`, or fails.
async function changed(page, id, before) {
  for (let i = 0; i < (widgets[id].slow ? 300 : 60); ++i) {
    await settle(page, 50);
    const now = await drawing(page, id);
    if (now !== before) return now;
  }
  assert.fail(`the drawing of ${id} did not change`);
}

// The drawing when it no longer changes: computed to the end, and the same twice in a row.
async function still(page, id) {
  const working = page.locator(`[data-widget=${id}] .working`);
  let last = "";
  for (let i = 0; i < 300; ++i) {
    const now = await drawing(page, id);
    if (now === last && (await working.count()) === 0) return now;
    last = now;
    await settle(page, 100);
  }
  assert.fail(`the drawing of ${id} does not come to rest`);
}

async function back(page, id, first) {
  await page.click(`[data-widget=${id}] button:has-text('Reset')`);
  for (let i = 0; i < 80; ++i) {
    await settle(page, 50);
    if ((await drawing(page, id)) === first) return;
  }
  assert.equal(await drawing(page, id), first, "Reset does not restore the first drawing");
}

const middle = async (page, selector) => {
  const box = await (await page.waitForSelector(selector)).boundingBox();
  return [box.x + box.width / 2, box.y + box.height / 2];
};

for (const [id, move] of Object.entries(widgets)) {
  test(`${id}: keys and mouse move the drawing, Reset restores it, its link brings it back`, async () => {
    const { page, context, said } = await at(id);
    const first = await still(page, id);
    const widget = page.locator(`[data-widget=${id}]`);
    await widget.locator(move.keys[0]).first().focus();
    await page.keyboard.press(move.keys[1]);
    await changed(page, id, first);
    const moved = await still(page, id);
    await settle(page, 300); // the link is written at most four times a second
    const hash = await page.evaluate(() => location.hash);
    assert.match(hash, new RegExp(`^#${id}\\?`));
    const again = await context.newPage();
    await again.goto(page_url + hash);
    await again.waitForSelector("html[data-alive=yes]", { state: "attached" });
    await show(again, id);
    for (let i = 0; i < 200 && (await drawing(again, id)) !== moved; ++i) await settle(again, 50);
    assert.equal(await drawing(again, id), moved, "the link draws something else");
    await again.close();
    await back(page, id, first);

    if (move.pull) {
      const handle = `[data-widget=${id}] [data-handle=${move.pull}] .grip`;
      await page.locator(handle).scrollIntoViewIfNeeded();
      const [x, y] = await middle(page, handle);
      await page.mouse.move(x, y);
      await page.mouse.down();
      const [dx, dy] = move.by ?? [-30, 25];
      await page.mouse.move(x + dx, y + dy, { steps: 4 });
      await page.mouse.up();
    } else await widget.locator(move.press).click();
    await changed(page, id, first);
    await back(page, id, first);
    assert.deepEqual(said, []);
  });

  if (move.press)
    test(`${id}: a finger moves the drawing`, async () => {
      const { page, said } = await at(id, "finger");
      const first = await still(page, id);
      await page.locator(`[data-widget=${id}]`).locator(move.press).tap();
      await changed(page, id, first);
      await back(page, id, first);
      assert.deepEqual(said, []);
    });
}

test("without scripts every section has its text, its first drawing and no dead control", async () => {
  const { page, context } = await open(browser, { javaScriptEnabled: false, alive: false });
  const ids = await page
    .locator("main > section")
    .evaluateAll((items) => items.map((item) => item.id))
    .catch(() => null);
  const html = await page.content();
  for (const id of Object.keys(widgets)) {
    const part = html.slice(
      html.indexOf(`data-widget="${id}"`),
      html.indexOf('<div class="prose', html.indexOf(`data-widget="${id}"`)),
    );
    assert.ok(
      /<path[^>]+d="M[^"]{20,}/.test(part) || /<circle/.test(part),
      `${id} has no first drawing`,
    );
    assert.ok(/<figcaption[^>]*>[^<]{10,}/.test(part) || /<figcaption/.test(part));
  }
  assert.equal(await page.locator(".controls:visible").count(), 0);
  assert.equal(await page.locator("button:visible").filter({ hasText: "Reset" }).count(), 0);
  // The film strip is no section; the answer is one without a widget, and your own runs are one more.
  assert.ok(ids === null || ids.length === Object.keys(widgets).length + 1);
  await context.close();
});

test("parallel vectors snap, and the page says that there is no plane", async () => {
  const { page } = await at("turn");
  const [ux, uy] = await middle(page, "[data-widget=turn] [data-handle=u] .grip");
  const [vx, vy] = await middle(page, "[data-widget=turn] [data-handle=v] .grip");
  const origin = await page.$eval("[data-widget=turn] .stage svg", (svg) => {
    const box = svg.getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2];
  });
  await page.mouse.move(ux, uy);
  await page.mouse.down();
  const on = [origin[0] - 0.7 * (vx - origin[0]), origin[1] - 0.7 * (vy - origin[1]) + 0.5];
  await page.mouse.move(...on, { steps: 5 });
  await page.mouse.up();
  await settle(page);
  assert.match(await page.textContent("[data-widget=turn] figcaption"), /no plane: A = 0/);
  await page.click("[data-widget=turn] button:has-text('Reset')");
});

test("the arrows of the gate loss point downhill, away from one half", async () => {
  const { page } = await at("trap");
  const arrows = await page.$$eval("[data-widget=trap] .downhill", (paths) =>
    paths.map((path) => {
      const [x0, y0, x1, y1] = /^M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)/
        .exec(path.getAttribute("d"))
        .slice(1)
        .map(Number);
      return { x: (x0 + x1) / 2, way: Math.sign(x1 - x0), down: y1 > y0 };
    }),
  );
  assert.equal(arrows.length, 10);
  const middle = arrows.reduce((sum, arrow) => sum + arrow.x, 0) / arrows.length;
  for (const arrow of arrows) {
    assert.equal(arrow.way, Math.sign(arrow.x - middle));
    assert.ok(arrow.down);
  }
});

test("a mouse over a chart reads it and leaves the link alone", async () => {
  const { page, context } = await open(browser, { hash: "#gate?gamma=0.25" });
  await show(page, "drift");
  const box = await page.locator("[data-widget=drift] .stage svg").boundingBox();
  await page.mouse.move(box.x + box.width / 3, box.y + box.height / 2, { steps: 3 });
  await settle(page, 400);
  assert.match(await page.textContent("[data-widget=drift] .readout"), /after 1\d layers/);
  assert.equal(await page.evaluate(() => location.hash), "#gate?gamma=0.25");
  await page.mouse.move(box.x + box.width / 2, box.y - 120, { steps: 3 });
  await settle(page);
  assert.match(await page.textContent("[data-widget=drift] .readout"), /after 48 layers/);
  await context.close();
});

test("past a half turn the arc's handle stays at the end it came from", async () => {
  const { page } = await at("turn");
  const handle = "[data-widget=turn] [data-handle=arc] .grip";
  await page.locator(handle).scrollIntoViewIfNeeded();
  const [x, y] = await middle(page, handle);
  const centre = await page.$eval("[data-widget=turn] .stage svg", (svg) => {
    const box = svg.getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2];
  });
  const radius = Math.hypot(x - centre[0], y - centre[1]);
  const on = (degrees) => [
    centre[0] + radius * Math.cos((degrees * Math.PI) / 180),
    centre[1] - radius * Math.sin((degrees * Math.PI) / 180),
  ];
  await page.mouse.move(x, y);
  await page.mouse.down();
  for (const degrees of [90, 120, 150, 175, 200, 240]) await page.mouse.move(...on(degrees));
  await settle(page);
  const [hx, hy] = await middle(page, handle);
  await page.mouse.up();
  const angle = (Math.atan2(centre[1] - hy, hx - centre[0]) * 180) / Math.PI;
  assert.ok(Math.abs(angle) > 175, `the handle is at ${angle}°`);
  assert.match(await page.textContent("[data-widget=turn] figcaption"), /never at it/);
  await page.click("[data-widget=turn] button:has-text('Reset')");
});

test("the list of sections lies over the page and closes by a choice and by Escape", async () => {
  const { page, context } = await open(browser);
  const top = () => page.$eval("h1", (title) => title.getBoundingClientRect().top);
  const shown = () => page.$eval(".bar details", (list) => list.open);
  const before = await top();
  await page.click(".bar summary");
  assert.equal(await shown(), true);
  assert.equal(await top(), before, "the page moved");
  await page.keyboard.press("Escape");
  assert.equal(await shown(), false);
  await page.click(".bar summary");
  await page.click(".bar a[href='#gate']");
  assert.equal(await shown(), false);
  await settle(page, 300);
  const heading = await page.$eval("#gate h2", (title) => title.getBoundingClientRect().top);
  const bar = await page.$eval(".bar", (element) => element.getBoundingClientRect().bottom);
  assert.match(await page.textContent(".bar summary"), /Rotation or reflection/);
  assert.ok(heading >= bar, `the heading is at ${heading}, under the bar that ends at ${bar}`);
  await page.click(".bar summary");
  await page.mouse.click(1200, 700);
  assert.equal(await shown(), false);
  await context.close();
});

test("the preset of the printed equation shows it miss", async () => {
  const { page, context } = await open(browser, { hash: "#spectrum" });
  await show(page, "spectrum");
  await page.click("[data-widget=spectrum] button:has-text('printed equation fails')");
  await page.waitForSelector("[data-widget=spectrum] [data-curve=printed]", { timeout: 60_000 });
  await page.waitForSelector("[data-widget=spectrum] .working", {
    state: "detached",
    timeout: 60_000,
  });
  const caption = await page.textContent("[data-widget=spectrum] figcaption");
  assert.match(caption, /misses: the area between it and the theory is 0\.[1-9]/);
  await context.close();
});
