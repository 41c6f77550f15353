// Links: states survive a round trip, and no input does harm.
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { load, web } from "./sources.mjs";

const { firstState, fromQuery, toQuery, fromSlider, toSlider, range } =
  await load("state/fields.ts");
const { readHash, writeHash } = await load("state/link.ts");
const widgets = await Promise.all(
  readdirSync(join(web, "src/widgets"), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(async ({ name }) => ({ name, fields: (await load(`widgets/${name}/state.ts`)).fields })),
);

const other = (field) => {
  if (field.kind === "choice") return field.values.find((value) => value !== field.first);
  if (field.kind === "several") return field.values.filter((_, i) => i % 2 === 0);
  const middle = field.from + (field.to - field.from) * 0.37;
  return Number((middle === field.first ? field.to : middle).toPrecision(6));
};

test("there are fourteen widgets", () => assert.equal(widgets.length, 14));

for (const { name, fields } of widgets)
  test(`${name}: every field goes round by the link`, () => {
    for (const [key, field] of Object.entries(fields)) {
      const state = { ...firstState(fields), [key]: other(field) };
      const hash = writeHash({ id: name, query: toQuery(fields, state), theme: "" });
      const link = readHash(hash);
      assert.equal(link.id, name);
      const read = fromQuery(fields, link.query);
      assert.deepEqual(read.state, state, key);
      assert.deepEqual(read.notes, []);
    }
    assert.equal(toQuery(fields, firstState(fields)), "");
  });

const gate = widgets.find(({ name }) => name === "gate").fields;

test("out of range is clamped and said", () => {
  const { state, notes } = fromQuery(gate, "gamma=7");
  assert.equal(state.gamma, 1);
  assert.equal(notes.length, 1);
  assert.match(notes[0], /gamma: 7 is out of range, 1 taken/);
});

test("an unknown key is named and ignored", () => {
  const { state, notes } = fromQuery(gate, "gamma=0.25&colour=red");
  assert.equal(state.gamma, 0.25);
  assert.match(notes[0], /colour is not an input here/);
});

test("hostile links give a state within range and notes, never an exception", () => {
  const hostile = [
    "gamma=NaN",
    "gamma=Infinity",
    "gamma=",
    "gamma",
    "gamma=%E0%A4%A",
    "__proto__=1&constructor=2&toString=3",
    "n=<img src=x onerror=alert(1)>",
    "gamma=1e999",
    `gamma=${"9".repeat(10000)}`,
    "&&&===&",
    "k=0x10",
  ];
  for (const query of hostile) {
    const link = readHash(`#gate?${query}`);
    const { state, notes } = fromQuery(gate, link.query);
    assert.ok(state.gamma >= 0 && state.gamma <= 1, query);
    assert.ok(gate.n.values.includes(state.n));
    assert.equal(Object.getPrototypeOf(state), Object.prototype);
    for (const note of notes) assert.ok(note.length < 200);
  }
  for (const hash of [
    "#",
    "#?",
    "#%",
    "#a b?x",
    `#${"x".repeat(1e4)}`,
    "#../../etc",
    "#gate?theme=pink",
  ])
    assert.doesNotThrow(() => readHash(hash));
  assert.equal(readHash("#GATE<script>").id, "");
});

test("the theme is kept in the link", () => {
  assert.equal(readHash("#gate?gamma=0.25&theme=dark").theme, "dark");
  assert.equal(writeHash({ id: "", query: "", theme: "dark" }), "#?theme=dark");
});

test("sliders reach both ends and come back", () => {
  for (const scale of ["linear", "log", "mixed"]) {
    const field = range("β", scale === "log" ? 1e-4 : 0, 1e8, 1, 0.01, { scale });
    assert.equal(fromSlider(field, 0), field.from);
    assert.equal(fromSlider(field, 1), field.to);
    for (const part of [0.1, 0.35, 0.8])
      assert.ok(
        Math.abs(toSlider(field, fromSlider(field, part)) - part) < 5e-3,
        `${scale} ${part}`,
      );
  }
});
