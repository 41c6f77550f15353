import { useState } from "preact/hooks";
import { across, Axes, plotArea, upward, vertical } from "../../charts/axes.tsx";
import { Drawing } from "../../charts/drawing.tsx";
import { linear, log, path, pixel, spread } from "../../charts/scales.ts";
import { Button, Checks, Scrub } from "../../controls/controls.tsx";
import { Figure } from "../../controls/figure.tsx";
import { list, number, several } from "../../controls/format.ts";
import { useOperator, useWidget } from "../../state/widget.ts";
import { pageResults, trainedDepth, trainedMixers } from "../../numbers/store.ts";
import { firstState, type State, toQuery } from "../../state/fields.ts";
import { colours, common, fields, lines, numbers, trainedLines } from "./state.ts";

const names = Object.keys(lines);
const r = plotArea(430, 340, { left: 50, right: 96, top: 30 });
const called = (name: string) =>
  `${name === "additive" || name === "rotation" ? "the " : ""}${lines[name]}`;
const layers = Array.from({ length: 97 }, (_, i) => i);
const least = 1e-12;

const inputsOf = (s: State<typeof fields>) => ({
  layers: s.init === "trained" ? Math.min(s.L, trainedDepth) : s.L,
  g: s.g,
  alignment: s.a,
  gamma: s.gamma,
  beta: s.beta,
  seed: s.seed,
  backward: s.way === "backward" ? 1 : 0,
  focus: 0,
  numbers: Object.keys(numbers).indexOf(s.init),
  trained: ["hc", "mhc", "shc"].flatMap(
    (name) => trainedMixers(name) ?? Array<number>(384).fill(0),
  ),
});
export const firstInputs = () => inputsOf(firstState(fields));

export function Drift() {
  const widget = useWidget("drift", fields);
  const s = widget.state;
  const [hover, setHover] = useState<number | null>(null);
  const inputs = inputsOf(s);
  const { value: d, refusal } = useOperator("drift", inputs);
  const depth = inputs.layers;
  // Twenty draws take too long for a drag: they are made when the page is built.
  const medians = pageResults().driftMedians;
  const asBuilt = toQuery(fields, { ...s, at: fields.at.first, lines: fields.lines.first }) === "";
  const trained = s.init === "trained";
  const shown = trained ? trainedLines : names.filter((name) => s.lines.includes(name));
  const course = (name: string) => {
    const line = names.indexOf(name);
    return d.norms.subarray(line * 97, line * 97 + depth + 1);
  };
  const all = shown.flatMap((name) => Array.from(course(name))).filter((value) => value > 0);
  const low = Math.max(least, Math.min(0.5, ...all) / 1.5);
  const high = Math.max(2, ...all) * 1.4;
  const x = linear(0, depth, ...across(r), 5);
  const y = log(low, high, ...upward(r));
  const within = (layer: number) => Math.min(depth, Math.max(0, Math.round(layer)));
  const at = hover ?? within(s.at);
  const ends = spread(
    shown.map((name) => y(Math.max(low, course(name)[depth]!))),
    16,
    r.top + 4,
    r.height - r.bottom,
  );
  const said = shown.map((name) => `${lines[name]} ${number(course(name)[at]!, 2)}`);
  const sentence = `After ${several(at, "layer")}: ${said.join(", ")}.`;
  const keeps = shown.filter((name) => Math.abs(course(name)[depth]! - 1) < 0.02);
  const which = trained ? "trained" : s.init === "initial" ? "freshly initialised" : "random";
  return (
    <Figure
      widget={widget}
      caption={
        s.g === 0 ? (
          <>
            After <Scrub widget={widget} name="L" text={String(depth)} /> {which} operators{" "}
            {keeps.length === 0
              ? "none of these lines keeps the norm."
              : keeps.length === shown.length
                ? "every line here still has its norm."
                : `${list(keeps.map(called))} ${keeps.length === 1 ? "keeps" : "keep"} the norm to 2%, the others do not.`}
          </>
        ) : (
          <>
            With a branch of strength <Scrub widget={widget} name="g" />{" "}
            {keeps.length === 0
              ? "no line keeps its norm"
              : `only ${list(keeps.map(called))} ends near 1`}
            : an operator keeps what it carries, not the norm of the network.
          </>
        )
      }
      sentence={sentence}
      refusal={refusal}
      buttons={
        <Button main onClick={() => widget.set({ g: s.g === 0 ? 0.1 : 0 })} pressed={s.g > 0}>
          {s.g === 0 ? "Add the branch" : "Remove the branch"}
        </Button>
      }
      table={() => [
        {
          caption: "Norm of the state over its first norm, by layer",
          head: ["layer", ...shown.map((name) => lines[name]!)],
          rows: layers
            .slice(0, depth + 1)
            .map((layer) => [layer, ...shown.map((name) => number(course(name)[layer]!))]),
        },
        ...(asBuilt && medians
          ? [
              {
                caption: "Median of the end over twenty seeds",
                head: ["line", "median"],
                rows: names.map((name, i) => [lines[name]!, number(medians[i]!)]),
              },
            ]
          : []),
      ]}
      main={
        <Drawing
          width={r.width}
          height={r.height}
          class="main"
          label={`Norm over depth, one line a connection. ${sentence}`}
          hover={(px) => setHover(px === null ? null : within(x.back(px)))}
          tap
          handles={[
            {
              id: "layer",
              at: [x(at), r.height - r.bottom],
              colour: "c-quiet",
              bare: true,
              drag: (px) => widget.set({ at: within(x.back(px)) }),
              inputs: [
                {
                  label: "layer read out",
                  value: at,
                  from: 0,
                  to: depth,
                  step: 1,
                  text: sentence,
                  set: (value) => widget.set({ at: Math.round(value) }),
                },
              ],
            },
          ]}
        >
          <Axes
            area={r}
            x={x}
            y={y}
            xLabel={s.way === "forward" ? "layer" : "layer, backward"}
            yLabel="norm, relative to the first"
          >
            <path class="reader" d={vertical(r, x(at))} />
            {shown.map((name, i) => (
              <>
                <path
                  class={`line ${colours[name]}`}
                  data-line={name}
                  d={path(layers.slice(0, depth + 1), course(name), x, y)}
                />
                <circle
                  class={`dot ${colours[name]}`}
                  cx={pixel(x(at))}
                  cy={pixel(y(Math.max(low, course(name)[at]!)))}
                  r="3.5"
                />
                <text
                  class={`label ${colours[name]}`}
                  x={r.width - r.right + 6}
                  y={pixel(ends[i]! + 4)}
                >
                  {lines[name]}
                </text>
              </>
            ))}
          </Axes>
        </Drawing>
      }
      controls={["init", "L"]}
      more={[
        <Checks widget={widget} name="lines" mark={mark} />,
        "gamma",
        "g",
        "a",
        "beta",
        "way",
        "seed",
      ]}
    >
      <dl class="readout" aria-label={`After ${at} layers`}>
        <div class="fact head">
          <dt>after {several(at, "layer")}</dt>
          <dd>norm</dd>
        </div>
        {shown.map((name) => (
          <div class="fact" data-line={name}>
            <dt>
              {mark(name)} {lines[name]}
            </dt>
            <dd>{number(course(name)[at]!, 3)}</dd>
          </div>
        ))}
      </dl>
      {trained ? (
        <p class="hint">
          The 24 sublayers of language models with four streams; EΔ, DDL and JPmHC have no such
          model here.
        </p>
      ) : asBuilt && medians ? (
        <p class="hint">
          One draw. Over twenty seeds the median ends at{" "}
          {common
            .slice(2)
            .map((name) => `${number(medians[names.indexOf(name)]!, 2)} for ${lines[name]}`)
            .join(", ")}
          .
        </p>
      ) : null}
    </Figure>
  );
}

const mark = (name: string) => <span class={`swatch ${colours[name]}`} aria-hidden="true" />;
