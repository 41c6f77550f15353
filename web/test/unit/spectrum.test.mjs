// Spectra: WebAssembly as native, theory as Monte Carlo, a refusal as its line.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import test from "node:test";
import { close, layouts, load, Refusal, start, wasmFolder } from "./sources.mjs";

const { solve } = await load("widgets/spectrum/solve.ts");
const request = {
  mixer: 1,
  streams: 4,
  depth: 3,
  sigma2: 0.05,
  eta: 0.02,
  seed: 1,
  printed: false,
  block: 25,
  samples: 60,
};
const caller = () => {
  const module = start("spectrum");
  return async (name, inputs) => module.call(name, inputs);
};
const last = async (wished) => {
  let result;
  for await (const part of solve(caller(), { ...request, ...wished })) result = part;
  return result;
};

const named = (name, values) => {
  let at = 0;
  return Object.fromEntries(
    Object.entries(layouts.spectrum[name].in).map(([field, count]) => {
      const value = count === 1 ? values[at] : values.slice(at, at + count);
      at += count;
      return [field, value];
    }),
  );
};

test("theory, printed equation and samples equal the native build to 1e-9", () => {
  const cases = JSON.parse(
    execFileSync(join(wasmFolder, "fixtures"), ["--spectrum"], { maxBuffer: 2 ** 30 }).toString(),
  );
  assert.ok(cases.length > 3);
  for (const item of cases) {
    const module = start("spectrum");
    const compare = (name, { in: given, out: expected }, asked = () => true) => {
      const actual = Object.values(module.call(name, named(name, given))).flatMap((value) =>
        typeof value === "number" ? [value] : [...value],
      );
      expected.forEach((value, i) => {
        if (value !== null && asked(i))
          assert.ok(close(actual[i], value, 1e-9), `${name}[${i}]: ${actual[i]}, native ${value}`);
      });
    };
    compare("spectrum_chain", item.chain);
    compare("spectrum_density", item.density);
    if (item.printed) compare("spectrum_density", item.printed);
    for (const part of item.summary ?? [])
      // a part fills its own fields: near_zero, low, high, then both moments
      compare("spectrum_summary", part, (i) => Math.min(i, 3) === part.in[0]);
    if (item.sample) compare("spectrum_sample", item.sample);
  }
});

test("theory and Monte Carlo agree: L1 distance below 0.03, E s² as the recursion says", async () => {
  for (const mixer of [0, 1, 2]) {
    const result = await last({ mixer });
    assert.ok(result.sampled.distance < 0.03, `mixer ${mixer}: ${result.sampled.distance}`);
    assert.ok(close(result.theory.first, result.exact, 1e-6));
    assert.equal(result.s.length, 161);
  }
});

test("orthogonal mixers have the law of the identity", async () => {
  const [one, other] = [await last({ mixer: 0, samples: 0 }), await last({ mixer: 2, samples: 0 })];
  assert.ok(Math.abs(one.theory.high - other.theory.high) < 1e-3);
  assert.ok(Math.abs(one.theory.low - other.theory.low) < 1e-3);
});

test("the equation as printed misses", async () => {
  const { rho, printed, s } = await last({ mixer: 0, printed: true, samples: 0 });
  const step = s[1] - s[0];
  const distance = rho.reduce((sum, value, i) => sum + Math.abs(value - printed[i]) * step, 0);
  assert.ok(distance > 0.05, String(distance));
});

test("a refusal arrives as its line, and the next call works", async () => {
  const module = start("spectrum");
  const chain = (depth) => ({
    mixer: 0,
    streams: 4,
    depth,
    sigma2_total: 0.05,
    eta: 0.02,
    seed: 1,
    given_layers: 0,
    given_sigma2: new Float64Array(200),
    given_mixers: new Float64Array(12800),
  });
  assert.throws(
    () => module.call("spectrum_chain", chain(0)),
    (error) =>
      error instanceof Refusal &&
      /^\[.+\] .*depth/.test(error.message) &&
      !error.message.includes("\n"),
  );
  await module.start();
  assert.ok(module.call("spectrum_chain", chain(2)).edge > 1);
});
