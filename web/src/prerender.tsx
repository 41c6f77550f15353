// Runs while the page is built: every section with its first state, as HTML.
import type { FunctionComponent } from "preact";
import { renderToString } from "preact-render-to-string";
import { compute, install, loaded } from "./engine/engine.ts";
import type { ModuleName } from "./engine/layout.ts";
import { Module } from "./engine/modules.ts";
import { installModel, Model, model, rules } from "./engine/predictor.ts";
import type { SpectrumCall } from "./engine/worker_client.ts";
import { Figures, type GateRun, type Results } from "./numbers/figures.ts";
import { type PageData, pageData, type Trained } from "./numbers/page_data.ts";
import { setPageData } from "./numbers/store.ts";
import { Answer } from "./story/answer.tsx";
import { Closing, Guide, Opening } from "./story/frame.tsx";
import { stories } from "./story/index.tsx";
import { type Claim, paperLink, type Story, useFigures } from "./story/parts.tsx";
import { Film } from "./widgets/film/view.tsx";
import { firstInputs } from "./widgets/drift/view.tsx";
import { turnNumber } from "./widgets/predict/turns.ts";
import { solve } from "./widgets/spectrum/solve.ts";
import { firstRequest } from "./widgets/spectrum/view.tsx";
import { registry } from "./widgets/registry.ts";

export interface Sources {
  modules: Record<string, WebAssembly.Module>;
  models: Record<string, Uint8Array>; // weights
  results: Results;
  twelve: Results;
  gates: GateRun[];
  trained: Trained;
  commits: Record<string, string>; // of each data file
  licences: string;
  // The source of the C++ test of this name.
  testFile(name: string): string | undefined;
}

const Quoted = ({ claim }: { claim: Claim }) =>
  claim.paper ? (
    <p>
      <span class="says">The paper ({paperLink(claim.paper)})</span> “{claim.claim}”
    </p>
  ) : (
    <p>
      <span class="says">We say</span> {claim.claim}
    </p>
  );

// Two lines and a verdict; the test's name is folded.
const ClaimLine = ({ claim, where }: { claim: Claim; where: string }) => (
  <li class={`claim ${claim.verdict.replaceAll(" ", "-")}`}>
    <div>
      <Quoted claim={claim} />
      {claim.find ? (
        <p>
          <span class="says">We find</span> {claim.find}
        </p>
      ) : null}
    </div>
    <span class="verdict">{claim.verdict}</span>
    <details class="by">
      <summary>{claim.by.startsWith("results: ") ? "number" : "test"}</summary>
      <code>{claim.by.replace("results: ", "")}</code> in <code>{where}</code>
    </details>
  </li>
);

function Section(props: {
  id: string;
  number: number;
  story: Story;
  view: FunctionComponent;
  late: boolean;
  commits: Record<string, string>;
  testFile: Sources["testFile"];
}) {
  const { id, story, view: View } = props;
  return (
    <section id={id} aria-labelledby={`${id}-title`}>
      <h2 id={`${id}-title`}>
        <span class="section-number">{props.number}</span>
        {story.title}
      </h2>
      <div class="prose">{story.before}</div>
      <div data-widget={id} {...(props.late ? { "data-late": "" } : {})}>
        <View />
      </div>
      <div class="prose">{story.after}</div>
      {story.claims.length ? (
        <ul class="claims" aria-label="Claims of this section">
          {story.claims.map((claim) => (
            <ClaimLine
              claim={claim}
              where={props.testFile(claim.by) ?? story.data[0] ?? "docs/results"}
            />
          ))}
        </ul>
      ) : null}
      {story.data.length ? (
        <p class="foot">
          Data: {story.data.map((file) => `${file} (commit ${props.commits[file]})`).join(", ")}
        </p>
      ) : null}
    </section>
  );
}

// First states that take too long to compute while the page wakes up: the page carries them.
async function addFirstStates(data: PageData, sources: Sources) {
  setPageData(data); // the trained mixers are in it
  data.driftMedians = [...compute("operators", "drift_median", firstInputs()).medians];
  if (model("edelta") && model("gpt")) data.predictMeans = meansOverTurns();
  const spectrum = sources.modules["spectrum"];
  if (spectrum) {
    const module = loaded("spectrum");
    const call: SpectrumCall = async (name, given) => module.call(name, given);
    for await (const part of solve(call, firstRequest())) data.spectrum = part;
    data.spectrum = JSON.parse(
      JSON.stringify(data.spectrum, (_, value: unknown) =>
        typeof value === "number" ? Number(value.toPrecision(6)) : value,
      ),
    ) as PageData["spectrum"];
  }
}

// The mean squared error of both models and of the trivial predictors over 200 turns.
function meansOverTurns(): Record<string, number> {
  const sums: Record<string, number> = {};
  const turns = 200;
  for (let k = 1; k <= turns; ++k) {
    const path = { i: k % 16, j: (k + 1 + (k % 7)) % 16, ...turnNumber(k), shown: 1, feed: false };
    const edelta = model("edelta")!.run(path);
    const errors: Record<string, number> = { EΔ: edelta.mse, GPT: model("gpt")!.run(path).mse };
    for (const rule of [2, 1, 3]) errors[rules[rule]!] = edelta.rulesMse[rule]!;
    for (const [name, error] of Object.entries(errors))
      sums[name] = (sums[name] ?? 0) + error / turns;
  }
  return sums;
}

function checkClaims(sources: Sources, figures: Figures) {
  for (const [id, story] of Object.entries(stories))
    for (const { by } of story.claims)
      if (by.startsWith("results: ")) figures.text(by.slice("results: ".length));
      else if (!sources.testFile(by)) throw new Error(`section ${id}: no test is called ${by}`);
}

// A section whose module or weights are not there is left out, and named.
function present(sources: Sources): { sections: [string, Story][]; leftOut: string[] } {
  const has = (need: string) =>
    need === "data" ||
    (need === "models"
      ? sources.modules["predictor"] !== undefined && Object.keys(sources.models).length >= 2
      : sources.modules[need] !== undefined);
  const all = Object.entries(stories);
  const whole = ([id]: [string, Story]) =>
    registry[id]!.needs.every(has) && (id !== "spectrum" || has("spectrum"));
  return {
    sections: all.filter(whole),
    leftOut: all.filter((item) => !whole(item)).map(([id]) => id),
  };
}

export interface Rendered {
  body: string;
  data: PageData;
  leftOut: string[];
}

export async function prerender(sources: Sources): Promise<Rendered> {
  for (const [name, code] of Object.entries(sources.modules))
    install(new Module(name as ModuleName, code).startNow());
  const predictor = sources.modules["predictor"];
  if (predictor)
    for (const [name, weights] of Object.entries(sources.models))
      installModel(Model.startNow(name, predictor, weights));
  const figures = new Figures(sources.results, sources.twelve, sources.gates);
  const data = pageData(sources.results, sources.gates, sources.trained);
  await addFirstStates(data, sources);
  useFigures(figures);
  setPageData(data);
  checkClaims(sources, figures);
  const { sections, leftOut } = present(sources);
  const body = renderToString(
    <>
      <a class="skip" href="#main">
        Skip to the story
      </a>
      <div class="bar">
        <nav aria-label="Sections">
          <details>
            <summary>
              Sections<span id="here"></span>
            </summary>
            <ol>
              {sections.map(([id, story]) => (
                <>
                  {id === "yours" ? (
                    <li>
                      <a href="#answer">So what replaces it?</a>
                    </li>
                  ) : null}
                  <li>
                    <a href={`#${id}`}>{story.title}</a>
                  </li>
                </>
              ))}
            </ol>
          </details>
        </nav>
        <button type="button" id="theme" title="Light or dark">
          <svg viewBox="0 0 24 24" aria-hidden="true">
            <circle cx="12" cy="12" r="8" />
            <path d="M12 4a8 8 0 0 1 0 16Z" />
          </svg>
          <span class="vh">Light or dark</span>
        </button>
        <div class="progress" aria-hidden="true" />
      </div>
      <main id="main">
        <Opening />
        <div id="film" data-widget="film">
          <Film />
        </div>
        <Guide />
        <noscript>
          <p class="note">
            Scripts are off: you see the first state of every figure, computed when the page was
            built.
          </p>
        </noscript>
        <p id="trouble" class="note" hidden />
        {sections.map(([id, story], index) => {
          const entry = registry[id];
          if (!entry) throw new Error(`section ${id} has no widget`);
          // The answer stands before the reader's own runs.
          const last = id === "yours";
          return (
            <>
              {last ? (
                <Answer
                  number={index + 1}
                  results={sources.results}
                  trained={sources.trained}
                  commits={sources.commits}
                />
              ) : null}
              <Section
                id={id}
                number={index + (last ? 2 : 1)}
                story={story}
                view={entry.view}
                late={entry.late ?? false}
                commits={sources.commits}
                testFile={sources.testFile}
              />
            </>
          );
        })}
        <Closing licences={sources.licences} />
      </main>
    </>,
  );
  return { body, data, leftOut };
}
