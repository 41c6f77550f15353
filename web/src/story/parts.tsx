// The building blocks of the story's sections.
import type { ComponentChildren } from "preact";
import temml from "temml";
import type { Figures } from "../numbers/figures.ts";

export interface Claim {
  claim: string;
  verdict: "holds" | "sharper" | "wrong" | "open";
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

// A number of the results files, marked as published, measured or of a predictor without a model.
export function F({ k }: { k: string }) {
  const kind = k.includes("published")
    ? "published"
    : k.includes("no_model") || k.includes("baselines")
      ? "nomodel"
      : "measured";
  return (
    <span class={`figure ${kind}`} title={`${kind === "nomodel" ? "no model" : kind}: ${k}`}>
      {figures!.text(k)}
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
