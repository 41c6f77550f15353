// The building blocks of the story's sections.
import type { ComponentChildren } from "preact";
import temml from "temml";
import type { Figures } from "../numbers/figures.ts";

export interface Claim {
  paper?: string; // which paper says it; ours without
  claim: string;
  find?: string; // our finding, if the verdict alone is too short
  verdict: "holds" | "exact form" | "true of the path only" | "wrong" | "open";
  // "Suite.Test" of the C++ sources, or "results: KEY" of numbers/figures.ts
  by: string;
}

export interface Story {
  title: string;
  before: ComponentChildren;
  after: ComponentChildren;
  claims: readonly Claim[];
  data: readonly string[]; // files that the section's numbers come from
}

let figures: Figures | undefined;
export const useFigures = (source: Figures) => {
  figures = source;
};

// A number of the results files, marked as published, measured or of a trivial predictor.
export function F({ k }: { k: string }) {
  const kind = k.includes("published")
    ? "published"
    : k.includes("no_model") || k.includes("baselines")
      ? "nomodel"
      : "measured";
  return (
    <span
      class={`figure ${kind}`}
      title={`${kind === "nomodel" ? "trivial predictor" : kind}: ${k}`}
    >
      {figures!.text(k)}
    </span>
  );
}

// Mathematics in a sentence: it does not break, letters are italic, words and digits upright.
const token = /(det|atan|cos|min)|([A-Za-zα-ω])|(ᵀ)|_([a-zα-ω0-9]+)/g;
export function M({ children }: { children: string | string[] }) {
  const text = [children].flat().join("");
  const parts: ComponentChildren[] = [];
  let last = 0;
  for (const found of text.matchAll(token)) {
    parts.push(text.slice(last, found.index));
    const [whole, word, letter, transposed, index] = found;
    parts.push(
      word ? word : letter ? <i>{letter}</i> : transposed ? <sup>T</sup> : <sub>{index}</sub>,
    );
    last = found.index + whole.length;
  }
  return (
    <span class="m">
      {parts}
      {text.slice(last)}
    </span>
  );
}

// A displayed formula, as MathML. The page's policy forbids style attributes, so they go.
export function Formula({ tex }: { tex: string }) {
  const math = temml
    .renderToString(tex, { displayMode: true, throwOnError: true })
    .replace(/ style="[^"]*"/g, "");
  return (
    <div
      class="formula"
      tabIndex={0}
      role="group"
      aria-label="formula"
      dangerouslySetInnerHTML={{ __html: math }}
    />
  );
}

export const papers: Record<string, { name: string; arxiv?: string }> = {
  EΔ: { name: "EΔ-MHC-Geo: EΔ, its tasks and tables", arxiv: "2605.06729" },
  JPmHC: { name: "JPmHC: iterated Cayley, Grassmann, permutations, spectra", arxiv: "2602.18308" },
  sHC: { name: "sHC, with HC, mHC and mHC-lite as its baselines", arxiv: "2603.20896" },
  mHC: { name: "mHC: doubly stochastic mixers", arxiv: "2512.24880" },
  HC: { name: "Hyper-connections: HC", arxiv: "2409.19606" },
  MGT: { name: "MGT, with the delta rule of DDL as a residual connection" },
};

export const paperLink = (paper: string) => {
  const { arxiv } = papers[paper]!;
  return arxiv ? <a href={`https://arxiv.org/abs/${arxiv}`}>{paper}</a> : paper;
};

// A connection's name, which explains itself when pressed.
export const N = ({ is, as }: { is: string; as?: string }) => (
  <button type="button" class="name-button" {...{ popovertarget: `name-${is}` }}>
    {as ?? names[is]!.name}
  </button>
);

export const names: Record<string, { name: string; bench: string; line: string }> = {
  additive: {
    name: "plain residual",
    bench: "",
    line: "x + F(x): the path carries the state unchanged.",
  },
  hc: {
    name: "HC",
    bench: "hc",
    line: "Hyper-connections: several streams, mixed by a free matrix.",
  },
  mhc: {
    name: "mHC",
    bench: "mhc",
    line: "HC with a doubly stochastic mixer: rows and columns sum to 1.",
  },
  mhc_lite: {
    name: "mHC-lite",
    bench: "mhc_lite",
    line: "mHC with a weighted mean of all permutations.",
  },
  shc: {
    name: "sHC",
    bench: "shc",
    line: "Sums of 1 and spectral norm 1; entries may be negative.",
  },
  jpmhc: {
    name: "JPmHC",
    bench: "jpmhc",
    line: "A mixer that is a rotation, up to an iteration.",
  },
  edelta: {
    name: "EΔ",
    bench: "edelta",
    line: "A gate blends a rotation with a reflection.",
  },
  ddl: {
    name: "DDL, MGT",
    bench: "ddl",
    line: "The delta rule: it erases one direction by a factor.",
  },
};
