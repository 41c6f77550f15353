// Numbers in the prose, by key, from the results files. Used while the page is built; an unknown
// key stops the build.
import { number, tenTo } from "../controls/format.ts";

export interface Sample {
  count: number;
  mean: number;
  deviation: number | null;
}
export interface Arm {
  name: string;
  label: string;
  best: Sample;
  exact: Sample;
  best_values: number[];
  exact_values: number[];
  published: Sample | null;
  parameters: number;
  config: Record<string, unknown>;
  diverged: number;
}
export interface Column {
  name: string;
  arms: Arm[];
  trivial_baselines: Record<string, number>;
}
export interface Test {
  t: number;
  p: number;
}
// Two rows of an experiment, by their labels: by what factor the first is better.
export interface Contrast extends Test {
  column: string;
  first: string;
  second: string;
  ratio: number;
}
export interface Experiment {
  name: string;
  title: string;
  columns: Column[];
  contrasts?: Contrast[];
}
export interface Claim {
  claim: string;
  better: string;
  worse: string;
  column: string;
  measured_ratio: number | null;
  measured_test: Test | null;
  published_ratio: number | null;
  published_test: Test | null;
  verdict: string;
}
export interface Probe {
  gamma: number | null;
  beta: number | null;
  cosine: number;
}
export interface Results {
  experiments: Experiment[];
  claims: Claim[];
  norms: Record<string, Record<string, { random: number; validation: number }[]>>;
  reflection: Record<string, Record<string, Probe[]>>;
  norms_published?: Record<string, number>;
  norms_baselines?: Record<string, number>;
  reflection_published?: Record<string, { cosine: number; gate: Sample | null }>;
}
export interface GateRun {
  reproduction: string;
  run: string;
  config: { gate_weight?: number; gate_bias?: number; seed: number; [key: string]: unknown };
  best: number;
  step_200: number;
  gamma: number[];
}

export const sampleOf = (values: readonly number[]): Sample => {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const square = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return {
    count: values.length,
    mean,
    deviation: values.length > 1 ? (square / (values.length - 1)) ** 0.5 : null,
  };
};

// "(4.35 ± 0.27)·10⁻⁶", both parts with the mean's exponent.
export function sampleText(sample: Sample): string {
  if (sample.deviation === null || Number.isNaN(sample.deviation)) return number(sample.mean);
  const power = sample.mean === 0 ? 0 : Math.floor(Math.log10(Math.abs(sample.mean)));
  if (power >= -2 && power <= 3)
    return `${sample.mean.toFixed(3)} ± ${sample.deviation.toFixed(3)}`.replace("-", "−");
  const part = (value: number) => (value / 10 ** power).toFixed(2);
  return `(${part(sample.mean)} ± ${part(sample.deviation)})·${tenTo(power)}`;
}

const found = <T>(value: T | undefined | null, key: string): T => {
  if (value === undefined || value === null)
    throw new Error(`figure "${key}" is not in docs/results`);
  return value;
};

export class Figures {
  constructor(
    readonly results: Results,
    readonly twelve: Results,
    readonly gates: readonly GateRun[],
  ) {}

  private arm(source: Results, key: string, experiment: string, column: string, arm: string) {
    const table = found(
      source.experiments.find((item) => item.name === experiment),
      key,
    );
    const part = found(
      table.columns.find((item) => item.name === column),
      key,
    );
    return { column: part, arm: part.arms.find((item) => item.name === arm) };
  }

  // main/stability/edelta/published · main/stability/no_model/running_mean · twelve/0.1/best ·
  // claim/EΔ beats GPT on gyroscope/verdict · norms/stability/gpt · reflection/edelta/500/gamma ·
  // lost/0.1 (of the twelve seeds, above 1.5e-3) · contrast/orthogonal/gyroscope/complex reflection/p
  text(key: string): string {
    const [kind, ...rest] = key.split("/") as [string, ...string[]];
    if (kind === "claim") {
      const claim = found(
        this.results.claims.find((item) => item.claim === rest[0]),
        key,
      );
      const value = found(claim[rest[1] as keyof Claim], key);
      return typeof value === "number" ? `${number(value)} ×` : String(value);
    }
    if (kind === "contrast") {
      const [experiment, column, first, what] = rest;
      const contrast = this.results.experiments
        .find((item) => item.name === experiment)
        ?.contrasts?.find((item) => item.column === column && item.first === first);
      return number(found(found(contrast, key)[what as "p"], key), 2);
    }
    if (kind === "norms") {
      const runs = found(this.results.norms[rest[0]!]?.[rest[1]!], key);
      return sampleText(sampleOf(runs.map((run) => run.random)));
    }
    if (kind === "norms_published")
      return number(found(this.results.norms_published?.[rest[0]!], key));
    if (kind === "norms_baselines")
      return number(found(this.results.norms_baselines?.[rest[0]!], key));
    if (kind === "reflection_published") {
      const published = found(this.results.reflection_published?.[rest[0]!], key);
      return rest[1] === "gate"
        ? number(found(published.gate, key).mean)
        : number(published.cosine);
    }
    if (kind === "reflection") {
      const runs = found(this.results.reflection[rest[0]!]?.[rest[1]!], key);
      const values = runs.map((run) => found(run[rest[2] as keyof Probe], key));
      return sampleText(sampleOf(values));
    }
    if (kind === "twelve") {
      const { arm } = this.arm(this.twelve, key, "gate_weight", "gyroscope", rest[0]!);
      const sample = found(found(arm, key)[rest[1] as "best"], key);
      return sampleText(sample);
    }
    if (kind === "lost") {
      const { arm } = this.arm(this.twelve, key, "gate_weight", "gyroscope", rest[0]!);
      const values = found(arm, key).best_values;
      return `${values.filter((value) => value > lostAbove).length} of ${values.length}`;
    }
    if (kind === "kept") {
      const { arm } = this.arm(this.twelve, key, "gate_weight", "gyroscope", rest[0]!);
      const values = found(arm, key).best_values.filter((value) => value <= lostAbove);
      return sampleText(sampleOf(values));
    }
    const { column, arm } = this.arm(this.results, key, kind, rest[0]!, rest[1]!);
    if (rest[1] === "no_model") return number(found(column.trivial_baselines[rest[2]!], key), 4);
    const value = found(found(arm, key)[rest[2] as "best"], key);
    return typeof value === "number" ? String(value) : sampleText(value);
  }
}

// docs/notebook/results.md calls a run on gyroscope lost when its best evaluation is above this.
export const lostAbove = 1.5e-3;
