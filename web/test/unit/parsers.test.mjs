// Other people's files: read, or refused with the position; never an exception, never a hang.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { load, root, web } from "./sources.mjs";

const { parseFile } = await load("runs/files.ts");
const bytes = (text) => new TextEncoder().encode(text);
const message = (name, content) => {
  const parsed = parseFile(name, typeof content === "string" ? bytes(content) : content);
  assert.equal(parsed.kind, "problem", `${name} was read as ${parsed.kind}`);
  return parsed.message;
};
const sample = (name) => readFileSync(join(web, "test/data", name));
const line = '{"step":0,"loss":0.5,"lr":0.001,"grad_norm":1.5}\n';

test("the files of a real run are read", () => {
  const { metrics } = parseFile("metrics.jsonl", sample("run/metrics.jsonl"));
  const lines = sample("run/metrics.jsonl")
    .toString()
    .trim()
    .split("\n")
    .map((text) => JSON.parse(text));
  assert.equal(metrics.step.length, lines.filter((entry) => "loss" in entry).length);
  assert.equal(metrics.evaluated.length, lines.filter((entry) => "validation" in entry).length);
  assert.equal(metrics.gamma.length, lines.find((entry) => entry.gamma).gamma.length);
  assert.equal(metrics.loss[3], lines.filter((entry) => "loss" in entry)[3].loss);
  assert.equal(parseFile("config.json", sample("run/config.json")).config.model, "edelta");
  assert.ok(parseFile("result.json", sample("run/result.json")).result.best_validation > 0);
  const { inspection } = parseFile("inspection.json", sample("run/inspection.json"));
  assert.equal(inspection.operators.length, 2 * inspection.layers.length);
  assert.ok(inspection.jacobian.length > 0);
  const { results } = parseFile(
    "results.json",
    readFileSync(join(root, "docs/results/results.json")),
  );
  assert.equal(results.experiments.length, 7);
  assert.equal(results.claims.length, 13);
  const golden = parseFile(
    "edelta.safetensors",
    readFileSync(join(root, "tests/golden/edelta.safetensors")),
  );
  assert.ok(golden.tensors.parameters > 10000);
});

test("what else a run folder holds is passed over", async () => {
  const { passedOver } = await load("runs/files.ts");
  for (const name of [
    "model.json",
    "checkpoint.safetensors",
    "checkpoint-200.safetensors",
    "mixers.safetensors",
  ])
    assert.ok(passedOver(name), name);
  for (const name of ["metrics.jsonl", "best.safetensors", "config.json", "inspection.json"])
    assert.ok(!passedOver(name), name);
});

test("a refusal names the line and the key", () => {
  assert.equal(
    message("metrics.jsonl", line + '{"step":1,"loss":"x"}\n'),
    'metrics.jsonl line 2: "loss" is not a number',
  );
  assert.equal(message("metrics.jsonl", '{"loss":1}\n'), 'metrics.jsonl line 1: "step" is missing');
  assert.match(message("metrics.jsonl", `${line}nonsense\n${line}`), /line 2: not JSON/);
  assert.match(message("metrics.jsonl", ""), /is empty/);
  assert.match(message("metrics.jsonl", "[1]\n"), /line 1 is not an object/);
  assert.match(message("config.json", "[]"), /config.json is not an object/);
  assert.match(message("other.json", "{}"), /neither config, result, inspection nor results/);
  assert.match(message("picture.png", "x"), /only .jsonl, .json and .safetensors/);
  assert.match(message("result.json", new Uint8Array([0xff, 0xfe, 0x00])), /not UTF-8/);
});

test("a cut last line is left out with a note; null is a gap", () => {
  const { metrics } = parseFile("metrics.jsonl", bytes(`${line}{"step":1,"lo`));
  assert.equal(metrics.step.length, 1);
  assert.match(metrics.notes[0], /last line is cut off/);
  assert.ok(
    Number.isNaN(parseFile("metrics.jsonl", bytes('{"step":0,"loss":null}\n')).metrics.loss[0]),
  );
});

test("limits: lines, bytes, header", () => {
  assert.match(message("metrics.jsonl", line.repeat(200_001)), /200001 lines, the limit is 200000/);
  assert.match(
    message("best.safetensors", new Uint8Array(65e6)),
    /65000000 bytes, the limit is 64000000/,
  );
  const header = new Uint8Array(2e6 + 8);
  new DataView(header.buffer).setBigUint64(0, BigInt(2e6), true);
  assert.match(
    message("best.safetensors", header),
    /header length 2000000 exceeds the limit of 1000000/,
  );
});

const frame = (entries, data = 0) => {
  const header = bytes(typeof entries === "string" ? entries : JSON.stringify(entries));
  const file = new Uint8Array(8 + header.length + data);
  new DataView(file.buffer).setBigUint64(0, BigInt(header.length), true);
  file.set(header, 8);
  return file;
};

test("hostile safetensors frames are refused", () => {
  const refuse = (pattern, file) => assert.match(message("best.safetensors", file), pattern);
  refuse(/header length alone takes 8/, new Uint8Array(3));
  refuse(/exceeds the 0 bytes that follow/, new Uint8Array([1, 0, 0, 0, 0, 0, 0, 0]));
  refuse(/exceeds the/, new Uint8Array(8).fill(255));
  refuse(/must begin with/, frame("[]"));
  refuse(/not JSON/, frame("{"));
  refuse(
    /dtype "F99" is not known/,
    frame({ a: { dtype: "F99", shape: [1], data_offsets: [0, 4] } }, 4),
  );
  refuse(/"shape" is missing/, frame({ a: { dtype: "F32", data_offsets: [0, 4] } }, 4));
  refuse(
    /shape\[0\] is not a count/,
    frame({ a: { dtype: "F32", shape: [-1], data_offsets: [0, 4] } }, 4),
  );
  refuse(
    /shape needs 8 bytes, data_offsets give 4/,
    frame({ a: { dtype: "F32", shape: [2], data_offsets: [0, 4] } }, 4),
  );
  refuse(
    /exceed the 4 bytes of data/,
    frame({ a: { dtype: "F32", shape: [2], data_offsets: [0, 8] } }, 4),
  );
  refuse(
    /two increasing counts/,
    frame({ a: { dtype: "F32", shape: [0], data_offsets: [4, 0] } }, 4),
  );
  refuse(
    /not where the last tensor ends/,
    frame(
      {
        a: { dtype: "F32", shape: [1], data_offsets: [0, 4] },
        b: { dtype: "F32", shape: [1], data_offsets: [2, 6] },
      },
      8,
    ),
  );
  refuse(
    /4 bytes after the last tensor/,
    frame({ a: { dtype: "F32", shape: [1], data_offsets: [0, 4] } }, 8),
  );
  refuse(
    /is not a count|needs/,
    frame({ a: { dtype: "F32", shape: [2 ** 40, 2 ** 40], data_offsets: [0, 4] } }, 4),
  );
});

test("10,000 mutations are read or refused, none throws", () => {
  let seed = 1;
  const random = (below) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed % below;
  };
  const golden = frame(
    { a: { dtype: "F32", shape: [2], data_offsets: [0, 8] }, __metadata__: { step: "1" } },
    8,
  );
  const files = ["metrics.jsonl", "config.json", "result.json", "inspection.json"].map((name) => [
    name,
    sample(`run/${name}`),
  ]);
  const results = readFileSync(join(root, "docs/results/twelve_seeds.json"));
  files.push(["results.json", results], ["best.safetensors", golden]);
  let refused = 0;
  for (let i = 0; i < 10_000; ++i) {
    const [name, original] = files[i % files.length];
    let copy = Uint8Array.from(original);
    for (let n = random(4) + 1; n > 0; --n) {
      const at = random(copy.length);
      const kind = random(5);
      if (kind === 0) copy[at] = random(256);
      else if (kind === 1) copy = copy.slice(0, at + 1);
      else if (kind === 2) copy[at] ^= 1 << random(8);
      else if (kind === 3)
        copy.set(
          bytes(["null", "[]", "{}", "1e999", '"x"', "-1"][random(6)]).slice(0, copy.length - at),
          at,
        );
      else copy.copyWithin(at, random(copy.length), random(copy.length));
    }
    const parsed = parseFile(name, copy);
    assert.ok(typeof parsed.kind === "string");
    if (parsed.kind === "problem") {
      ++refused;
      assert.ok(
        parsed.message.length < 400 && !parsed.message.includes("could not be read"),
        parsed.message,
      );
    }
  }
  assert.ok(refused > 3000, String(refused));
});

test("the samples are all used", () =>
  assert.equal(readdirSync(join(web, "test/data/run")).length >= 4, true));
