// The modules' results in WebAssembly equal those of the same sources compiled natively.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import test from "node:test";
import { close, layouts, start, wasmFolder } from "./sources.mjs";

const fixtures = (...args) =>
  JSON.parse(execFileSync(join(wasmFolder, "fixtures"), args, { maxBuffer: 2 ** 30 }).toString());
const native = fixtures("--layout");
const eigenvalues = new Set(["re", "im", "re_course", "im_course"]);
// Draws of a computation; fewer where one call already runs through many layers, steps or draws.
const draws = { drift: 100, drift_median: 5, trap: 200, bench: 400 };
const width = (shape) => Object.values(shape).reduce((sum, count) => sum + count, 0);

test("every computation of the C++ is bound, field by field", () => {
  for (const [module, computations] of Object.entries(native))
    for (const [name, fields] of Object.entries(computations)) {
      const bound = layouts[module]?.[name];
      assert.ok(bound, `${module}.${name} is not bound`);
      const ours = [
        ...Object.entries(bound.in).map(([field, count]) => [field, count, "in"]),
        ...Object.entries(bound.out).map(([field, count]) => [field, count, "out"]),
      ];
      assert.deepEqual(ours, fields, `${module}.${name}`);
    }
});

for (const [moduleName, computations] of Object.entries(layouts))
  for (const [name, layout] of Object.entries(computations)) {
    // predictor's arrays live outside its structs, spectrum's calls follow one another: see their tests
    if (moduleName !== "operators") continue;
    test(`${moduleName}.${name} equals the native build`, () => {
      const module = start(moduleName);
      const tolerance = 1e-12;
      const cases = fixtures(name, String(draws[name] ?? 1000));
      assert.ok(cases.length > 0);
      let values = 0;
      for (const { in: given, out: expected } of cases) {
        const inputs = {};
        let at = 0;
        for (const [field, count] of Object.entries(layout.in)) {
          inputs[field] = count === 1 ? given[at] : given.slice(at, at + count);
          at += count;
        }
        const answer = module.call(name, inputs);
        const scales = Object.entries(answer).flatMap(([field, value]) => {
          if (typeof value === "number") return [1];
          // An eigenvalue is only as exact as its matrix is large: measured against the largest.
          const largest = eigenvalues.has(field) ? Math.max(1, ...value.map(Math.abs)) : 1;
          return Array(value.length).fill(largest);
        });
        const actual = Object.values(answer).flatMap((value) =>
          typeof value === "number" ? [value] : [...value],
        );
        assert.equal(actual.length, width(layout.out));
        actual.forEach((value, i) => {
          ++values;
          if (expected[i] === null) assert.ok(!Number.isFinite(value), `${name}[${i}] = ${value}`);
          else
            assert.ok(
              close(value, expected[i], tolerance * scales[i]),
              `${name}[${i}] of ${JSON.stringify(given).slice(0, 200)}: ${value}, native ${expected[i]}`,
            );
        });
      }
      assert.ok(values > 0);
    });
  }
