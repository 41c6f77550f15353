// Drags by real touch events on a phone: the handle ends under the finger, and the page has not scrolled.
import assert from "node:assert/strict";
import test, { after, before } from "node:test";
import { launch, open, settle } from "./browser.mjs";

let browser, page, cdp;
before(async () => {
  browser = await launch();
  const opened = await open(browser, {
    viewport: { width: 390, height: 844 },
    hasTouch: true,
    isMobile: true,
  });
  page = opened.page;
  cdp = await opened.context.newCDPSession(page);
});
after(() => browser.close());

// A handle follows the finger in both coordinates, in one, or in the angle around the middle of a circle,
// which is given as parts of the drawing's width.
const around = (x, y) => ({ x, y });
const drags = [
  ["drift", "layer", "x", [-60, 0]],
  ["turn", "u", "both", [-45, 40]],
  ["turn", "v", "both", [50, -30]],
  ["turn", "arc", around(0.5, 0.5), [-60, 20]],
  ["missing", "pair", around(0.25, 0.25), [-40, 10]],
  ["missing", "slide", "x", [-30, 10]],
  ["gate", "k", around(0.5, 0.5), [-50, -35]],
  ["gate", "x", "both", [55, 30]],
  ["gate", "gamma", "x", [80, 0]],
  ["trap", "ball", "x", [70, 20]],
  ["iterative", "m", "x", [50, -10]],
  ["predict", "guess", "both", [60, -50]],
  ["predict", "start", "both", [-50, 45], "Show the models"],
];

const touch = (type, points) => cdp.send("Input.dispatchTouchEvent", { type, touchPoints: points });
const middle = (selector) =>
  page.$eval(selector, (element) => {
    const { x, y, width, height } = element.getBoundingClientRect();
    return [x + width / 2, y + height / 2];
  });

async function show(id) {
  await page.$eval(`#${id}`, (section) => section.scrollIntoView());
  await page.waitForSelector(`[data-widget=${id}][data-alive=yes]`);
  await settle(page, 100);
}

const off = 5; // px by which the finger misses the knob

for (const [id, handle, follows, [dx, dy], press] of drags)
  test(`${id}: ${handle} ends under the finger`, async () => {
    await show(id);
    if (press) await page.tap(`[data-widget=${id}] button:has-text('${press}')`);
    const knob = `[data-widget=${id}] [data-handle=${handle}]`;
    await page.waitForSelector(knob, { state: "attached" });
    await page.$eval(knob, (element) => element.scrollIntoView({ block: "center" }));
    await settle(page, 100);
    const scrolled = await page.evaluate(() => scrollY);
    const [x, y] = await middle(`${knob} .grip`);
    await touch("touchStart", [{ x: x + off, y }]);
    for (let i = 1; i <= 8; ++i)
      await touch("touchMove", [{ x: x + off + (dx * i) / 8, y: y + (dy * i) / 8 }]);
    await settle(page, 60);
    const [hx, hy] = await middle(`${knob} .grip`);
    const ended = await page.evaluate(() => scrollY);
    await touch("touchEnd", []);
    assert.equal(ended, scrolled, "the page scrolled");
    const near = (actual, wished, what) =>
      assert.ok(Math.abs(actual - wished) < 4, `${what}: handle at ${actual}, finger at ${wished}`);
    if (typeof follows === "object") {
      const box = await page.$eval(`[data-widget=${id}] [data-handle=${handle}]`, (element) => {
        const { x, y, width } = element.ownerSVGElement.getBoundingClientRect();
        return { x, y, width };
      });
      const centre = [box.x + follows.x * box.width, box.y + follows.y * box.width];
      const angle = (px, py) => Math.atan2(py - centre[1], px - centre[0]);
      const apart = Math.abs(angle(hx, hy) - angle(x + dx, y + dy));
      assert.ok(Math.min(apart, 2 * Math.PI - apart) < 0.06, `the handle is ${apart} rad off`);
    } else {
      near(hx, x + dx, "x");
      if (follows === "both") near(hy, y + dy, "y");
    }
    await settle(page, 60);
    await page.$eval(`[data-widget=${id}] .tool`, (element) => element.click());
    await settle(page, 60);
  });

test("numbers in captions follow the finger", async () => {
  for (const [id, name, dx] of [
    ["gate", "γ", 60],
    ["turn", "β", 40],
    ["iterative", "m", -50],
    ["drift", "layers", -50],
  ]) {
    await show(id);
    const scrub = `[data-widget=${id}] figcaption .scrub`;
    await page.$eval(scrub, (element) => element.scrollIntoView({ block: "center" }));
    await settle(page, 100);
    const scrolled = await page.evaluate(() => scrollY);
    const read = () => page.$eval(`${scrub} input`, (input) => input.valueAsNumber);
    const part = () =>
      page.$eval(
        `${scrub} input`,
        (input) => (input.valueAsNumber - Number(input.min)) / (Number(input.max) - input.min),
      );
    const before = [await read(), await part()];
    const [x, y] = await middle(scrub);
    await touch("touchStart", [{ x, y }]);
    for (let i = 1; i <= 6; ++i) await touch("touchMove", [{ x: x + (dx * i) / 6, y }]);
    await settle(page, 60);
    const moved = (await part()) - before[1];
    await touch("touchEnd", []);
    assert.ok(Math.abs(moved - dx / 300) < 0.03, `${name}: moved by ${moved} of its range`);
    assert.equal(await page.evaluate(() => scrollY), scrolled, `${name}: the page scrolled`);
    await page.$eval(`[data-widget=${id}] .tool`, (element) => element.click());
  }
});

test("on a phone the main picture and its main control are on one screen", async () => {
  const ids = await page.$$eval("[data-widget]", (items) =>
    items.map((item) => item.dataset.widget),
  );
  const tall = [];
  for (const id of ids) {
    await show(id);
    const height = await page.$eval(`[data-widget=${id}]`, (widget) => {
      const picture = widget.querySelector(".stage > :first-child");
      const control = widget.querySelector(
        ".stage .control, .stage .file-button, .stage input, .stage select",
      );
      if (!picture || !control) return NaN;
      const [a, b] = [picture.getBoundingClientRect(), control.getBoundingClientRect()];
      return Math.max(a.bottom, b.bottom) - Math.min(a.top, b.top);
    });
    if (!(height <= 790)) tall.push(`${id}: ${height} px`);
  }
  assert.deepEqual(tall, []);
});
