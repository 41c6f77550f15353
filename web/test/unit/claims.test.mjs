// The page's claim lines, computed through the page's own bindings.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { close, root, start } from "./sources.mjs";

const operators = start("operators");
const [plane, gate, streams] = [operators, operators, operators];

const blend = (more) =>
  plane.call("gate", { gamma: 0.5, beta: 1, k: 40, x0: 0.8, x1: 0.4, n: 2, seed: 1, ...more });
const roll = (more) =>
  gate.call("trap", {
    lambda: 0.1,
    t: 0,
    b: 0,
    nudge: 0,
    adamw: 0,
    decay: 0,
    steps: 2000,
    rate: 0.1,
    noise: 0,
    seed: 1,
    ...more,
  });

test("the blend's defect is 4γ(1 − γ) and its smallest singular value |2γ − 1|, for 2 to 8 streams", () => {
  for (const n of [2, 3, 4, 8])
    for (let gamma = 0; gamma <= 1; gamma += 0.0625) {
      const g = blend({ gamma, n, seed: 3 });
      assert.ok(close(g.defect, 4 * gamma * (1 - gamma), 1e-12), `n ${n} γ ${gamma}: ${g.defect}`);
      assert.ok(close(g.sigma_min, Math.abs(2 * gamma - 1), 1e-12));
      assert.ok(g.sigma_max <= 1 + 1e-12);
    }
});

test("descent moves γ away from one half; arrows point downhill", () => {
  const { arrows } = roll({});
  for (let i = 0; i < 21; ++i)
    assert.ok(Math.sign(Math.round(1e9 * arrows[i])) === Math.sign(i - 10), `arrow ${i}`);
  assert.ok(roll({ b: 0.5 }).gamma_end > 0.9);
  assert.ok(roll({ b: -0.5 }).gamma_end < 0.1);
});

test("the presets end where the page says", () => {
  assert.equal(roll({}).gamma_end, 0.5);
  const adamw = { adamw: 1, decay: 0.01, rate: 1e-3 };
  assert.equal(roll({ ...adamw, nudge: 1e-6 }).gamma_end.toFixed(3), "0.917");
  const probe = { ...adamw, lambda: 0.5, b: -1.5 };
  assert.equal(roll(probe).gamma_end.toFixed(4), "0.0431");
  assert.equal(roll({ ...probe, steps: 5000 }).gamma_end.toFixed(4), "0.0097");
});

test("the watershed is at ½ + t/(8λ) and is gone from |t| = 4λ on", () => {
  assert.ok(close(roll({ t: 0.1 }).watershed, 0.625, 1e-12));
  assert.equal(roll({ t: 0.4 }).watershed_exists, 0);
  assert.equal(roll({ t: 0.39 }).watershed_exists, 1);
});

test("the iterative Cayley's defect is its polynomial for one, two and three steps", () => {
  const laws = [
    (m) => m ** 4 / 4,
    (m) => (m ** 4 * Math.abs(4 - m * m)) / 16,
    (m) => (m ** 6 * Math.abs(4 - m * m)) / 64,
  ];
  for (const steps of [1, 2, 3])
    for (const m of [0.1, 0.5, 1, 1.7, 2, 2.2]) {
      const { plane_defect } = streams.call("iterative", {
        m,
        steps,
        from_identity: 0,
        ratio: 0.6,
      });
      assert.ok(close(plane_defect[0], laws[steps - 1](m), 1e-12), `${steps} steps at ${m}`);
    }
  assert.ok(
    streams.call("iterative", { m: 2, steps: 2, from_identity: 0, ratio: 1 }).minus_identity <
      1e-12,
  );
  assert.ok(
    streams.call("iterative", { m: 2, steps: 2, from_identity: 1, ratio: 1 }).minus_identity > 0.5,
  );
});

test("det H_β = 1 − β, and Cayley reaches the reported cosine at βμ = 14", () => {
  for (const beta of [0, 0.5, 1, 2, 2.5])
    assert.ok(
      close(plane.call("missing", { bm: 2, beta, k: 30, wanted: 0 }).h_det, 1 - beta, 1e-12),
    );
  assert.ok(plane.call("missing", { bm: 14, beta: 1, k: 30, wanted: 0 }).cosine >= 0.96);
});

const plain = { ux: 1, uy: 0, vx: 0, vy: 1, single: 0, solve: 0, seed: 1, wanted: 0 };

test("Q turns by 2 atan(βμ/2); parallel vectors give exactly the identity, at any β", () => {
  const turned = plane.call("turn", { ...plain, beta: 2 });
  assert.ok(close(turned.theta, Math.PI / 2, 1e-12));
  assert.ok(close(turned.q[2], 1, 1e-12));
  assert.deepEqual(
    [...turned.kept].map((entry) => Math.round(1e6 * entry) / 1e6 + 0),
    [1, 0, 0, 1],
  );
  assert.ok(turned.defect < 1e-15);
  const still = plane.call("turn", { ...plain, ux: 1.25, uy: 0.5, vx: -2.5, vy: -1, beta: 1e8 });
  assert.deepEqual([...still.q], [1, 0, 0, 1]);
  assert.equal(still.defect, 0);
});

test("where the solve fails, its picture does: the letter that Q must leave alone is bent", () => {
  const broken = plane.call("turn", { ...plain, beta: 1e8, single: 1, solve: 1 });
  assert.ok(broken.defect > 0.01);
  const [a, b, c, d] = broken.kept;
  assert.ok(Math.max(Math.abs(a - 1), Math.abs(b), Math.abs(c), Math.abs(d - 1)) > 0.1);
});

test("float32: the solve loses orthogonality with β, the closed form does not", () => {
  const turn = (beta, solve) => plane.call("turn", { ...plain, beta, single: 1, solve }).defect;
  assert.ok(turn(1e6, 0) < 4e-6);
  assert.ok(turn(1e6, 1) > 1e-3);
});

test("without a branch only exact rotations keep the norm; with one everything drifts", () => {
  const drift = (more) =>
    streams.call("drift", {
      layers: 48,
      g: 0,
      alignment: 0,
      gamma: 0.9,
      beta: 1,
      seed: 1,
      backward: 0,
      focus: 0,
      numbers: 0,
      trained: Array(1152).fill(0),
      ...more,
    }).ends;
  const [additive, edelta, ddl] = drift({});
  assert.ok(close(additive, 1, 1e-12));
  assert.ok(edelta < 0.2 && ddl < 0.05);
  assert.ok(close(drift({ gamma: 1 })[1], 1, 1e-9));
  assert.ok(close(drift({ gamma: 0 })[1], 1, 1e-9));
  assert.ok(close(drift({})[5], 1, 1e-12), "the exact rotation");
  const branched = drift({ g: 0.1, gamma: 1 });
  assert.ok(branched[1] > 1.02 && branched[0] > 1.02);
});

test("sixteen sweeps are not enough where mHC starts, the direct solve is", () => {
  const { errors, direct } = streams.call("sweeps", { off: -8, seed: 1 });
  assert.ok(errors[16] > 0.5, String(errors[16]));
  assert.ok(direct < 1e-5, String(direct));
});

const mixers = JSON.parse(readFileSync(join(root, "docs/results/explorer.json"), "utf8")).mixers;

test("random mixers lose all but the mean; as initialised and trained they do not", () => {
  const bench = (more) =>
    streams.call("bench", {
      connection: 3,
      n: 4,
      scale: 1,
      initial: 0,
      seed: 1,
      iterations: 20,
      layers: 24,
      given: 0,
      trained: Array(384).fill(0),
      ...more,
    }).sigma[3];
  assert.ok(bench({}) < 1e-10);
  assert.ok(bench({ initial: 1 }) > 0.96);
  const trained = bench({ given: 1, trained: mixers.mhc.flat() });
  assert.ok(trained > 0.1 && trained < 0.999, String(trained));
  assert.ok(bench({ connection: 5, initial: 1 }) > 0.97);
});

test("the film: the plain sum and a rotation keep the letter, mixing puts it on the diagonal", () => {
  const { layers, frames } = streams.call("film", { gamma: 0.9, branch: 0, initial: 0, seed: 1 });
  assert.deepEqual([...layers], [0, 1, 2, 4, 8, 16, 32, 48]);
  const last = (row) => frames.slice(32 * row + 28, 32 * row + 32);
  const det = ([a, b, c, d]) => a * d - b * c;
  assert.deepEqual([...last(0)], [1, 0, 0, 1]);
  assert.ok(close(det(last(1)), 1, 1e-12));
  assert.ok(Math.abs(det(last(2))) < 1e-3);
  assert.ok(Math.max(...last(3).map(Math.abs)) < 0.01);
  for (const entry of last(4)) assert.ok(close(entry, 0.5, 1e-6));
});
