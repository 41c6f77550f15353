// Caption, facts and drawing agree in every state that a reader reaches by one control: both ends of each
// slider, each choice, each button, and the values that the prose names.
import assert from "node:assert/strict";
import test, { after, before } from "node:test";
import { launch, open, settle } from "./browser.mjs";

let browser, page;
before(async () => {
  browser = await launch();
  ({ page } = await open(browser));
});
after(() => browser.close());

const raised = "⁰¹²³⁴⁵⁶⁷⁸⁹";
// The first number in a text, as the page writes numbers; NaN without one.
function numberIn(text) {
  const from = text.slice(Math.max(0, text.search(/[−-]?\d/)));
  const power = /^([−-]?)(?:([\d.]+)·)?10(⁻?)([⁰¹²³⁴⁵⁶⁷⁸⁹]+)/.exec(from);
  if (power) {
    const size = Number([...power[4]].map((digit) => raised.indexOf(digit)).join(""));
    return (power[1] ? -1 : 1) * Number(power[2] ?? 1) * 10 ** (power[3] ? -size : size);
  }
  const plain = /^[−-]?\d[\d,]*(\.\d+)?/.exec(from);
  return plain ? Number(plain[0].replace("−", "-").replace(/,/g, "")) : NaN;
}
const after_ = (text, words) => {
  const found = new RegExp(words).exec(text);
  assert.ok(found, `"${text}" lacks ${words}`);
  return numberIn(text.slice(found.index + found[0].length));
};
const same = (a, b, why) =>
  assert.ok(
    Math.abs(a - b) <= 0.006 * Math.max(Math.abs(a), Math.abs(b)) + 1e-9,
    `${why}: ${a}, ${b}`,
  );

// The widget as a reader sees it.
const read = (id) =>
  page.$eval(`[data-widget=${id}]`, (widget) => {
    const plain = (element) => {
      const copy = element.cloneNode(true);
      for (const part of copy.querySelectorAll("input, .vh")) part.remove();
      return copy.textContent.replaceAll("↔", "").replace(/\s+/g, " ").trim();
    };
    return {
      caption: plain(widget.querySelector("figcaption")),
      facts: Object.fromEntries(
        [...widget.querySelectorAll(".fact")].map((fact) => [
          plain(fact.querySelector("dt")),
          plain(fact.querySelector("dd")),
        ]),
      ),
      rows: [...widget.querySelectorAll("table:not(.mixer) tbody tr")].map((row) =>
        [...row.children].map(plain),
      ),
      values: Object.fromEntries(
        [...widget.querySelectorAll("input[name], select[name]")]
          .filter((input) => input.type !== "radio" || input.checked)
          .map((input) => [input.name.replace(/^\w+-/, ""), input.value]),
      ),
      working: widget.querySelector(".working") !== null,
      html: widget.querySelector(".drawings").innerHTML,
      loose: [...widget.querySelectorAll("output")].filter(
        (output) => output.getBoundingClientRect().height > 2,
      ).length,
    };
  });

const checks = {
  film({ caption, html }) {
    const fates = [...html.matchAll(/data-fate="(\w+)"/g)].map(([, fate]) => fate);
    assert.equal(fates.length, 5);
    for (const [fate, verb] of [
      ["kept", /keeps? the F/],
      ["bent", /bends? it/],
      ["flat", /flattens? it/],
      ["gone", /to a point/],
    ])
      assert.equal(fates.includes(fate), verb.test(caption), `${fate}: ${caption}`);
    // Nothing but a point may be invisible.
    for (const [, path] of html.matchAll(/class="letter[^"]*" d="([^"]+)"/g))
      assert.ok(path.length > 40);
  },
  start({ caption, facts }) {
    const [small, operator, identity] = [
      "no operator, small start",
      "EΔ’s operator, small start",
      "no operator, identity start",
    ].map((name) => numberIn(facts[name]));
    const near = (a, b) => assert.ok(Math.abs(a / b - 1) < 0.08, `${caption}: ${a}, ${b}`);
    near(after_(caption, "median error"), identity / small);
    if (/raises it/.test(caption)) near(after_(caption, "raises it"), operator / small);
    if (/lowers it/.test(caption)) near(after_(caption, "lowers it"), small / operator);
  },
  drift({ caption, facts }) {
    const lines = Object.entries(facts).filter(([name]) => !name.startsWith("after"));
    const near = lines.filter(([, value]) => Math.abs(numberIn(value) - 1) < 0.02);
    if (/every line here/.test(caption)) assert.equal(near.length, lines.length, caption);
    else if (/none of these|no line keeps/.test(caption)) assert.equal(near.length, 0, caption);
    else for (const [name] of near) assert.ok(caption.includes(name), `${caption} lacks ${name}`);
  },
  streams({ caption, facts }) {
    const second = numberIn(facts["second singular value"]);
    const least = numberIn(facts["smallest"]);
    if (/all singular values are 1/.test(caption)) assert.equal(facts["smallest"], "1", caption);
    else if (/smallest singular value is/.test(caption))
      same(after_(caption, "smallest singular value is"), least, caption);
    else if (/at most/.test(caption) && !/rounding/.test(caption))
      same(after_(caption, "at most") / (/%/.test(caption) ? 100 : 1), second, caption);
    assert.doesNotMatch(JSON.stringify(facts), /10⁻¹[5-9]|10⁻[2-9]\d/, "rounding noise as data");
  },
  turn({ caption, facts }) {
    if (/no plane/.test(caption)) return assert.equal(facts["μ, the area"], "0");
    if (/no longer gives a rotation/.test(caption))
      return same(after_(caption, "off by"), numberIn(facts["largest |QᵀQ − I|"]), caption);
    assert.ok(numberIn(facts["largest |QᵀQ − I|"]) <= 0.01, caption);
    assert.ok(caption.includes(facts["θ"]), `${caption} / ${facts["θ"]}`);
    assert.doesNotMatch(caption, /180\.0°/);
    same(after_(caption, "area of"), numberIn(facts["μ, the area"]), caption);
  },
  missing({ caption, facts }) {
    const det = numberIn(facts["det = 1 − β"]);
    assert.equal(/singular/.test(caption), Math.abs(det) < 5e-3, caption);
    assert.equal(/a reflection/.test(caption), Math.abs(numberIn(facts["eigenvalue"]) + 1) < 5e-3);
  },
  gate({ caption, facts, values }) {
    const defect = Object.entries(facts).find(([name]) => name.startsWith("‖"))[1];
    same(numberIn(defect), numberIn(facts["4γ(1 − γ)"]), caption);
    same(after_(caption, "At γ ="), Number(values.gamma), caption);
    const flat = numberIn(facts["σmin"]) < 5e-3;
    assert.equal(/the blend is flat/.test(caption), flat, caption);
    assert.equal(/exactly orthogonal/.test(caption), numberIn(defect) === 0, caption);
  },
  trap({ caption, facts }) {
    const [start, end] = [numberIn(facts["starts at γ"]), numberIn(facts["ends at γ"])];
    if (/ridge: exactly/.test(caption)) same(end, 0.5, caption);
    else if (/stays at/.test(caption)) same(after_(caption, "stays at γ ="), end, caption);
    else {
      same(after_(caption, "From γ ="), start, caption);
      same(after_(caption, "rolls to γ ="), end, caption);
    }
  },
  iterative({ caption, facts }) {
    const defect = numberIn(facts["defect ‖YᵀY − I‖₂"]);
    const [law, value] = Object.entries(facts).find(([name]) => /^m/.test(name));
    same(defect, numberIn(value), `${caption}: ${law}`);
    if (/give −I exactly/.test(caption)) same(numberIn(facts["distance to −I"]), 0, caption);
    else {
      same(after_(caption, "leaves? Y"), defect, caption);
      same(numberIn(caption.slice(caption.lastIndexOf("=") + 1)), defect, caption);
    }
  },
  spectrum({ caption, rows, html, working }) {
    const below = rows.find(([name]) => name === "below 0.1")?.[1];
    if (below === "…") return assert.match(caption, /Computing/);
    if (/printed equation/.test(caption)) assert.ok(html.includes('data-curve="printed"'), caption);
    else if (numberIn(below) > 20) same(after_(caption, "layers?"), numberIn(below), caption);
    else assert.doesNotMatch(caption, /spike/);
    assert.doesNotMatch(rows.join(), /10⁻[⁰¹²³⁴⁵⁶⁷⁸⁹]+ ?%/, "rounding noise as data");
    if (!working && /histogram/.test(html)) assert.ok(html.includes('data-curve="samples"'));
  },
  predict({ caption, values }) {
    assert.doesNotMatch(caption, /\b1 states/);
    same(after_(caption.replace("After ", ""), "^"), Number(values.t), caption);
    assert.equal(/Where is the next one/.test(caption), values.answer === "hidden", caption);
    if (Number(values.t) < 2) assert.doesNotMatch(caption, /two-line rule/);
    if (values.feed === "yes" && values.answer === "shown")
      assert.match(caption, /reads its own predictions/);
  },
  results({ caption, html }) {
    assert.doesNotMatch(caption, /best row/);
    const said = (html.match(/said to be better/g) ?? []).length;
    const pressed = (html.match(/claim-button[^>]*aria-pressed="true"/g) ?? []).length;
    assert.equal(said, pressed, caption);
  },
  seeds({ caption, html }) {
    const marks = (html.match(/class="pick"/g) ?? []).length;
    if (/of/.test(caption) && !/None/.test(caption)) assert.ok(after_(caption, "of") <= marks);
  },
};

// States that the prose or a button of another time names.
const named = {
  iterative: ["m=2", "m=2&ratio=0.6", "m=1.8&ratio=0.6", "m=2&start=identity", "m=1.63&s=3"],
  turn: ["beta=100000000", "beta=100000000&type=32&how=solve", "vx=2.4&vy=0.6"],
  streams: ["init=initial&layers=1", "init=initial&layers=24", "init=trained&layers=24"],
  spectrum: ["L=48", "mixer=identity&s2=0.3&printed=on", "init=trained"],
  predict: ["t=1&answer=shown", "feed=yes&answer=shown", "answer=shown&theta=3"],
  results: ["table=norms&claim=1", "table=main&task=gyroscope&claim=1", "table=reflection"],
  missing: ["beta=2", "beta=1", "bm=2600"],
};

async function agrees(id, how) {
  const seen = await read(id);
  try {
    assert.equal(seen.loose, 0, "a second sentence, which lags behind the caption");
    checks[id](seen);
  } catch (error) {
    error.message = `${id}, ${how}: ${error.message}`;
    throw error;
  }
}

const reset = (id) => page.$eval(`[data-widget=${id}] .tool`, (element) => element.click());
const quiet = { spectrum: 700 };

for (const id of Object.keys(checks))
  test(`${id}: caption and facts agree in every state`, async () => {
    await page.$eval(`#${id}`, (section) => section.scrollIntoView());
    await page.waitForSelector(`[data-widget=${id}][data-alive=yes]`);
    for (const more of await page.$$(`[data-widget=${id}] details`))
      await more.evaluate((element) => (element.open = true));
    await agrees(id, "first state");
    const controls = await page.$$eval(`[data-widget=${id}] :is(input, select)[name]`, (items) =>
      items.map((item) => [item.name, item.type, [...(item.options ?? [])].map((o) => o.value)]),
    );
    const rest = quiet[id] ?? 40;
    for (const [name, type, options] of controls) {
      const at = `[data-widget=${id}] [name="${name}"]`;
      const set = (value) =>
        page.$eval(
          at,
          (item, wished) => {
            item.value = wished === "max" ? item.max : wished === "min" ? item.min : wished;
            item.dispatchEvent(
              new Event(item.tagName === "SELECT" ? "change" : "input", { bubbles: true }),
            );
          },
          value,
        );
      if (type === "range")
        for (const end of ["min", "max"]) {
          await set(end);
          await settle(page, rest);
          await agrees(id, `${name} at its ${end}`);
        }
      else if (type === "radio")
        for (const radio of await page.$$(at)) {
          await radio.evaluate((item) => item.click());
          await settle(page, rest);
          await agrees(id, `${name} = ${await radio.getAttribute("value")}`);
        }
      else if (type.startsWith("select"))
        for (const option of options) {
          await set(option);
          await settle(page, rest);
          await agrees(id, `${name} = ${option}`);
        }
      await reset(id);
      await settle(page, rest);
    }
    const buttons = page.locator(`[data-widget=${id}] .actions button`);
    const names = await buttons.allTextContents();
    for (const name of names.filter((text) => !/Draw|Play/.test(text))) {
      const button = page.locator(`[data-widget=${id}] .actions button`, { hasText: name }).first();
      await button.evaluate((element) => element.click());
      await settle(page, rest);
      await agrees(id, `button ${name}`);
      await reset(id);
      await settle(page, rest);
    }
    for (const query of named[id] ?? []) {
      await page.evaluate((hash) => (location.hash = hash), `#${id}?${query}`);
      await settle(page, rest);
      await agrees(id, query);
    }
    await reset(id);
  });
