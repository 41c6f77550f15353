// The density of a deep Jacobian's singular values, in pieces: first coarse, then fine, then
// samples. Pieces are yielded one by one; the caller may stop iterating.
import { messageOf } from "../../engine/modules.ts";
import type { SpectrumCall } from "../../engine/worker_client.ts";

export interface Request {
  mixer: number; // 0…7, or 8: those given
  streams: number;
  depth: number;
  sigma2: number;
  eta: number;
  seed: number;
  printed: boolean;
  block: number;
  samples: number; // 0: none
  given?: { mixers: readonly (readonly number[])[]; sigma2: readonly number[] };
}

export interface Summary {
  near_zero: number;
  low: number;
  high: number;
  first: number;
}

export interface Spectrum {
  s: number[];
  rho: number[];
  printed: number[] | null;
  printedRefusal: string;
  exact: number; // E s² by the recursion
  theory: Summary | null;
  sampled: (Summary & { distance: number; samples: number; rho: number[] }) | null;
  values: number[]; // counts of the samples in bins
  bins: number; // width of a bin
  done: boolean;
}

const piece = 16;
export const binCount = 60;

const even = (to: number, count: number) =>
  Array.from({ length: count }, (_, i) => (to * (i + 0.25)) / (count - 0.75));

async function density(call: SpectrumCall, s: readonly number[], printed: boolean) {
  const rho: number[] = [];
  for (let at = 0; at < s.length; at += piece) {
    const part = s.slice(at, at + piece);
    const padded = [...part, ...Array<number>(piece - part.length).fill(part[part.length - 1]!)];
    const answer = await call("spectrum_density", {
      count: part.length,
      printed: printed ? 1 : 0,
      s: padded,
    });
    rho.push(...answer.rho.slice(0, part.length));
  }
  return rho;
}

const padded = (values: readonly number[], length: number) => [
  ...values,
  ...Array<number>(length - values.length).fill(0),
];

function chainInputs(request: Request) {
  const given = request.given;
  const mixers = new Float64Array(12800);
  const sigma2 = new Float64Array(200);
  given?.mixers.slice(0, 200).forEach((mixer, i) => mixers.set(mixer, i * 64));
  given?.sigma2.slice(0, 200).forEach((value, i) => (sigma2[i] = value));
  return {
    mixer: request.mixer,
    streams: request.streams,
    depth: request.depth,
    sigma2_total: request.sigma2,
    eta: request.eta,
    seed: request.seed,
    given_layers: Math.min(200, given?.mixers.length ?? 0),
    given_sigma2: sigma2,
    given_mixers: mixers,
  };
}

export async function* solve(call: SpectrumCall, request: Request): AsyncGenerator<Spectrum> {
  const chain = await call("spectrum_chain", chainInputs(request));
  const reach = Math.max(chain.edge * 1.06, chain.edge + 3 * request.eta);
  const result: Spectrum = {
    s: [],
    rho: [],
    printed: null,
    printedRefusal: "",
    exact: chain.exact_first,
    theory: null,
    sampled: null,
    values: Array<number>(binCount).fill(0),
    bins: reach / binCount,
    done: false,
  };
  const fine = even(reach, 161);
  const coarse = fine.filter((_, i) => i % 4 === 0);
  result.s = coarse;
  result.rho = await density(call, coarse, false);
  yield { ...result };
  const between = fine.filter((_, i) => i % 4 !== 0);
  const added = await density(call, between, false);
  let a = 0;
  let b = 0;
  const coarseRho = result.rho;
  result.rho = fine.map((_, i) => (i % 4 === 0 ? coarseRho[a++]! : added[b++]!));
  result.s = fine;
  yield { ...result };
  // The quantiles take longest, one part a call: they come last. NaN: not yet.
  const part = (index: number) => call("spectrum_summary", { part: index });
  const theory = { near_zero: (await part(0)).near_zero, low: NaN, high: NaN, first: NaN };
  result.theory = { ...theory };
  yield { ...result };
  if (request.printed) {
    try {
      result.printed = await density(call, fine, true);
    } catch (error) {
      result.printedRefusal = messageOf(error);
      await call("spectrum_chain", chainInputs(request));
    }
    yield { ...result };
  }
  const each = Math.max(1, Math.floor(1000 / (request.streams * request.block)));
  for (let first = 0; first < request.samples; first += each) {
    const count = Math.min(each, request.samples - first);
    const drawn = await call("spectrum_sample", {
      first,
      count,
      block: request.block,
      seed: request.seed,
    });
    const values = [...result.values];
    for (let i = 0; i < drawn.values_count; ++i) {
      const bin = Math.floor(drawn.values[i]! / result.bins);
      if (bin < binCount) ++values[bin]!;
    }
    result.values = values;
    yield { ...result };
  }
  if (request.samples > 0) {
    const compared = await call("spectrum_compare", {
      points: fine.length,
      s: padded(fine, 512),
      theory: padded(result.rho, 512),
    });
    result.sampled = { ...compared, rho: [...compared.rho.slice(0, fine.length)] };
  }
  yield { ...result };
  theory.low = (await part(1)).low;
  theory.high = (await part(2)).high;
  theory.first = (await part(3)).first;
  yield { ...result, theory, done: true };
}
