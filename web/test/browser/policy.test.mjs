// Nothing leaves the page, and nothing foreign runs in it.
import assert from "node:assert/strict";
import test, { after, before } from "node:test";
import { launch, open, settle } from "./browser.mjs";

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser.close());

test("the page makes no request but for itself, from top to bottom", async () => {
  const { page, context, said, asked } = await open(browser);
  const ids = await page.$$eval("[data-widget]", (items) =>
    items.map((item) => item.dataset.widget),
  );
  for (const id of ids) {
    await page.evaluate((name) => document.getElementById(name).scrollIntoView(), id);
    await settle(page, 200);
  }
  assert.deepEqual(asked, []);
  assert.deepEqual(said, []);
  assert.deepEqual(
    await page.evaluate(() => [localStorage.length, sessionStorage.length, document.cookie]),
    [0, 0, ""],
  );
  await context.close();
});

test("fetch, remote pictures, inline scripts, handlers and styles are refused", async () => {
  const { page, context } = await open(browser);
  const blocked = [];
  await page.exposeFunction("blockedBy", (directive) => blocked.push(directive));
  await page.evaluate(() => {
    document.addEventListener("securitypolicyviolation", (event) =>
      globalThis.blockedBy(event.effectiveDirective),
    );
  });
  const tried = await page.evaluate(async () => {
    const fetched = await fetch("https://example.org/").then(
      () => true,
      () => false,
    );
    const image = await new Promise((done) => {
      const picture = new Image();
      picture.onload = () => done(true);
      picture.onerror = () => done(false);
      picture.src = "https://example.org/x.png";
    });
    const holder = document.createElement("div");
    holder.innerHTML = `<button onclick="globalThis.ran = true">x</button><p style="color: red">x</p>`;
    document.body.append(holder);
    holder.querySelector("button").click();
    const script = document.createElement("script");
    script.textContent = "globalThis.ranScript = true";
    document.body.append(script);
    return {
      fetched,
      image,
      handler: globalThis.ran === true,
      script: globalThis.ranScript === true,
      coloured: getComputedStyle(holder.querySelector("p")).color === "rgb(255, 0, 0)",
    };
  });
  assert.deepEqual(tried, {
    fetched: false,
    image: false,
    handler: false,
    script: false,
    coloured: false,
  });
  const refused = [
    "connect-src",
    "img-src",
    "script-src-attr",
    "script-src-elem",
    "style-src-attr",
  ];
  // The reports come one by one, later on a busy machine.
  for (let i = 0; i < 50 && !refused.every((item) => blocked.includes(item)); ++i)
    await settle(page, 100);
  for (const directive of refused)
    assert.ok(blocked.includes(directive), `${directive} was not refused: ${blocked}`);
  await context.close();
});

test("hostile links open the page, report the error and run nothing", async () => {
  for (const hash of [
    "#gate?gamma=NaN",
    "#gate?gamma=99&colour=red",
    "#gate?n=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E",
    `#gate?gamma=${"9".repeat(10_000)}`,
    "#gate?gamma=%E0%A4%A",
    "#<script>alert(1)</script>",
  ]) {
    const { page, context, said } = await open(browser, { hash });
    await settle(page);
    if (hash.startsWith("#gate"))
      assert.match(
        await page.textContent("[data-widget=gate] .refusal[role=status]"),
        /In the link: /,
      );
    assert.equal(await page.locator("img").count(), 0);
    assert.deepEqual(said, []);
    await context.close();
  }
});

test("without DecompressionStream or WebAssembly the page stays an article and names the missing feature", async () => {
  for (const missing of ["DecompressionStream", "WebAssembly"]) {
    const context = await browser.newContext();
    const page = await context.newPage();
    const said = [];
    page.on("pageerror", (error) => said.push(String(error)));
    await page.addInitScript((name) => {
      delete globalThis[name];
    }, missing);
    const { page_url } = await import("./browser.mjs");
    await page.goto(page_url);
    await page.waitForSelector("#trouble:not([hidden])");
    assert.match(await page.textContent("#trouble"), new RegExp(missing));
    assert.deepEqual(said, []);
    await context.close();
  }
});

test("the theme switch holds, in the link only", async () => {
  const { page, context } = await open(browser, { colorScheme: "light" });
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await paper();
  await page.click("#theme");
  assert.notEqual(await paper(), light);
  await settle(page, 400);
  assert.match(await page.evaluate(() => location.hash), /theme=dark/);
  await context.close();
});
