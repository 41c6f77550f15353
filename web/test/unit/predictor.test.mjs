// The model of the page: the papers' own numbers through its WebAssembly, and the trivial rules.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { close, load, root, wasmFile, wasmFolder, web } from "./sources.mjs";

const { Model, Refusal } = await load("engine/predictor.ts", "engine/modules.ts");
const code = new WebAssembly.Module(readFileSync(wasmFile("predictor")));

const fixtures = (...words) =>
  JSON.parse(execFileSync(join(wasmFolder, "fixtures"), words, { maxBuffer: 2 ** 28 }).toString());

// How far the module's answers are from those expected.
function distance(name, { weights, config, shape, x, out }) {
  const bytes = Uint8Array.from(Buffer.from(weights, "base64"));
  const model = Model.startNow(name, code, bytes, config);
  const [sequences, length, width] = shape;
  const size = length * width;
  let worst = 0;
  for (let b = 0; b < sequences; ++b)
    model.outputsFor(x.slice(b * size, (b + 1) * size), length).forEach((value, i) => {
      const expected = out[b * size + i];
      assert.ok(Number.isFinite(value) && Number.isFinite(expected), name);
      worst = Math.max(worst, Math.abs(value - expected) / Math.max(1, Math.abs(expected)));
    });
  return worst;
}

const goldens = ["gpt", "ddl", "mhc", "jpmhc", "edelta", "edelta_entropy_gate", "edelta_stream"];
for (const name of goldens)
  test(`${name}: the golden dump comes out to 1e-12`, () => {
    const file = join(root, "tests/golden", `${name}.safetensors`);
    const worst = distance(name, fixtures("--golden", file));
    assert.ok(worst < 1e-12, `worst ${worst}`);
  });

test("every form of every connection equals the native build to 1e-12", () => {
  const models = fixtures("--models");
  for (const model of models) {
    const worst = distance(model.name, model);
    assert.ok(worst < 1e-12, `${model.name}: ${worst}`);
  }
  // The module names all connections that it has when it is asked for another one.
  const config = JSON.stringify({ ...JSON.parse(models[0].config), connection: "nonesuch" });
  const bytes = Uint8Array.from(Buffer.from(models[0].weights, "base64"));
  let offered = [];
  assert.throws(
    () => Model.startNow("nonesuch", code, bytes, config),
    ({ message }) => {
      offered = /here: (.*) have/.exec(message)[1].split(", ");
      return true;
    },
  );
  const covered = new Set(models.map((model) => JSON.parse(model.config).connection));
  assert.deepEqual(offered, [...covered].sort());
});

test("weights that are none are refused in one line, and the next model starts", () => {
  assert.throws(
    () => Model.startNow("bad", code, new Uint8Array(20), "{}"),
    (error) =>
      error instanceof Refusal && error.message.length < 300 && !error.message.includes("\n"),
  );
});

const models = ["edelta", "gpt"].map((name) => join(web, "models", `${name}.safetensors`));
const state = { i: 0, j: 1, x: 0.8, y: 0.3, theta: 0.9, shown: 8, feed: false };

test(
  "the page's models learn the turn; the two-state rule is exact",
  { skip: !models.every(existsSync) && "no models" },
  () => {
    for (const path of models) {
      const model = Model.startNow(path, code, readFileSync(path));
      assert.equal(model.info.input_width, 16);
      const shown = model.run(state);
      const [, copy, mean, rule] = shown.rulesMse;
      assert.ok(shown.mse < mean && shown.mse < copy, `${path}: ${shown.mse}, ${mean}, ${copy}`);
      for (let t = 1; t < 32; ++t)
        assert.ok(
          shown.rulesErrors[3 * 256 + t] < 1e-20,
          `position ${t}: ${shown.rulesErrors[3 * 256 + t]}`,
        );
      assert.ok(rule < shown.mse);
      for (let t = 0; t < 32; ++t) {
        const length = shown.inputs
          .slice(t * 16, t * 16 + 16)
          .reduce((sum, value) => sum + value * value, 0);
        assert.ok(close(length, 1, 1e-12));
      }
      const fed = model.run({ ...state, feed: true });
      assert.ok(fed.mse > shown.mse, "fed back it drifts");
    }
  },
);
