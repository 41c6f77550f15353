import { useState } from "preact/hooks";
import { across, Axes, Cross, Fact, plane, plotArea, upward } from "../../charts/axes.tsx";
import { Drawing } from "../../charts/drawing.tsx";
import { linear, log, path, pixel } from "../../charts/scales.ts";
import { Button, Choose, Slider } from "../../controls/controls.tsx";
import { Figure } from "../../controls/figure.tsx";
import { clean, fixed, nearOne, number, percent, several } from "../../controls/format.ts";
import { compute } from "../../engine/engine.ts";
import { trainedDepth, trainedMixers } from "../../numbers/store.ts";
import { useComputed, useOperator, useWidget } from "../../state/widget.ts";
import { colours, connections, fields } from "./state.ts";

const order = Object.keys(connections);
const eigen = 150;
const p = plane(eigen, 1.6);
const course = plotArea(420, 320, { left: 50, right: 16, top: 32 });
const inset = plotArea(360, 230, { left: 50, top: 38 });
const rounding = 1e-14;

type Bench = ReturnType<typeof bench>;
type Inputs = Parameters<typeof bench>[1];

function bench(
  connection: string,
  inputs: {
    n: number;
    scale: number;
    initial: number;
    seed: number;
    iterations: number;
    layers: number;
    trained: boolean;
  },
) {
  const trained = inputs.trained ? trainedMixers(connection) : null;
  return compute("operators", "bench", {
    ...inputs,
    layers: trained ? Math.min(inputs.layers, trainedDepth) : inputs.layers,
    initial: inputs.trained ? 1 : inputs.initial,
    connection: order.indexOf(connection),
    given: trained ? 1 : 0,
    trained: trained ?? Array<number>(384).fill(0),
  });
}

// Signed values: blue below zero, white at zero, orange above.
const shade = (value: number) => {
  const step = Math.min(4, Math.round(Math.abs(value) * 4));
  return `cell ${value < 0 ? "minus" : "plus"}-${step}`;
};

function Grid({ b, n, name }: { b: Bench; n: number; name: string }) {
  const [cell, setCell] = useState(0);
  const walk = (event: KeyboardEvent) => {
    const way = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: n, ArrowUp: -n }[event.key];
    if (!way) return;
    event.preventDefault();
    const next = Math.min(n * n - 1, Math.max(0, cell + way));
    setCell(next);
    const table = event.currentTarget as HTMLElement;
    table.querySelectorAll<HTMLElement>("[data-cell]")[next]?.focus();
  };
  return (
    <div class="grid-scroll">
      <table
        class={`mixer n${n}`}
        aria-label={`${name}: matrix with row and column sums`}
        role="grid"
        onKeyDown={walk}
      >
        <tbody>
          {Array.from({ length: n }, (_, row) => (
            <tr>
              {Array.from({ length: n }, (_, column) => {
                const i = row * n + column;
                return (
                  <td
                    role="gridcell"
                    class={shade(b.h[i]!)}
                    data-cell={i}
                    tabIndex={i === cell ? 0 : -1}
                    onFocus={() => setCell(i)}
                  >
                    {fixed(b.h[i]!)}
                  </td>
                );
              })}
              <th scope="row" class="sum">
                {fixed(b.row_sums[row]!)}
              </th>
            </tr>
          ))}
          <tr>
            {Array.from({ length: n }, (_, column) => (
              <th scope="col" class="sum">
                {fixed(b.column_sums[column]!)}
              </th>
            ))}
            <th class="sum">
              <span class="vh">sums</span>Σ
            </th>
          </tr>
        </tbody>
      </table>
    </div>
  );
}

const small = (value: number) => (value < rounding ? "below rounding" : clean(value));

function Panel({ name, b, n }: { name: string; b: Bench; n: number }) {
  return (
    <div class="bench">
      <p class="panel-title">{connections[name]}</p>
      <div class="side-by-side">
        <Grid b={b} n={n} name={connections[name]!} />
        <Drawing
          width={eigen}
          height={eigen}
          class="small"
          label={`Eigenvalues: ${Array.from({ length: n }, (_, i) => `${clean(b.re[i]!)} ${b.im[i]! < 0 ? "−" : "+"} ${clean(Math.abs(b.im[i]!))}i`).join("; ")}`}
        >
          <circle class="disc" cx={pixel(p.x(0))} cy={pixel(p.y(0))} r={pixel(p.unit)} />
          <Cross plane={p} />
          <text class="name" x="4" y="12">
            eigenvalues
          </text>
          {Array.from({ length: n }, (_, i) => (
            <circle
              class={`dot ${colours[name]}`}
              cx={pixel(p.x(Math.max(-1.6, Math.min(1.6, b.re[i]!))))}
              cy={pixel(p.y(Math.max(-1.6, Math.min(1.6, b.im[i]!))))}
              r="5"
            />
          ))}
        </Drawing>
      </div>
    </div>
  );
}

export function Streams() {
  const widget = useWidget("streams", fields);
  const s = widget.state;
  const trained = s.init === "trained";
  const lite = s.c === "mhc_lite" || s.pin === "mhc_lite";
  const n = trained ? 4 : lite ? Math.min(6, s.n) : s.n;
  const inputs: Inputs = {
    n,
    scale: s.scale,
    initial: s.init === "initial" ? 1 : 0,
    seed: s.seed,
    iterations: s.it,
    layers: trained ? Math.min(s.layers, trainedDepth) : s.layers,
    trained,
  };
  const { layers } = inputs;
  const key = Object.values(inputs);
  const { value: b, refusal } = useComputed(() => bench(s.c, inputs), [s.c, ...key]);
  const pinned = useComputed(
    () => (s.pin === "none" ? null : bench(s.pin, inputs)),
    [s.pin, ...key],
  );
  const range = (values: Float64Array) => {
    const part = Array.from(values.subarray(0, n));
    const [low, high] = [Math.min(...part), Math.max(...part)];
    return high - low < 5e-3 ? number(Number(low.toFixed(4))) : `${number(low)} to ${number(high)}`;
  };
  const name = connections[s.c]!;
  const [largest, second, least] = [b.sigma[0]!, b.sigma[1]!, b.sigma[n - 1]!];
  const sums = range(b.row_sums) === "1" && range(b.column_sums) === "1";
  const exact = least > 1 - 5e-5 && largest < 1 + 5e-5;
  const unknown = trained && !trainedMixers(s.c);
  const which = `${several(layers, trained && !unknown ? "trained layer" : s.init === "random" ? "random layer" : "layer")}${s.init === "initial" || unknown ? " as initialised" : ""}`;
  const sentence = `Row sums ${range(b.row_sums)}, column sums ${range(b.column_sums)}, second singular value ${small(second)}, det ${clean(b.det)}.`;
  const steps = Array.from({ length: layers }, (_, i) => i + 1);
  const shown = [{ name: s.c, b }].concat(
    pinned.value && s.pin !== "none" ? [{ name: s.pin, b: pinned.value }] : [],
  );
  const sigma = (of: Bench, i: number) => steps.map((step) => of.sigma_course[(step - 1) * 8 + i]!);
  const all = shown
    .flatMap((item) => Array.from({ length: n }, (_, i) => sigma(item.b, i)))
    .flat()
    .filter((value) => value > rounding);
  const low = Math.max(1e-12, Math.min(0.5, ...all) / 1.5);
  const x = linear(layers === 1 ? 0 : 1, Math.max(2, layers), ...across(course), 5);
  const y = log(low, Math.max(1.5, ...all) * 1.3, ...upward(course));
  return (
    <Figure
      widget={widget}
      caption={
        exact
          ? `${name} keeps every direction through ${which}: all singular values are 1.`
          : least > 0.5 && largest < 1.001
            ? `${name} keeps nearly everything through ${which}: its smallest singular value is ${nearOne(least)}.`
            : sums
              ? `${name} keeps the mean stream through ${which}; of every other direction at most ${second < 0.001 ? (second < rounding ? "rounding noise" : number(second)) : percent(second)} is left.`
              : `${name} through ${which}: singular values from ${nearOne(largest)} down to ${small(least)}.`
      }
      sentence={sentence}
      refusal={refusal || pinned.refusal}
      table={() => [
        {
          caption: `${name}, product of ${several(layers, "layer")}`,
          head: ["row", ...Array.from({ length: n }, (_, i) => String(i + 1)), "sum"],
          rows: Array.from({ length: n }, (_, row) => [
            row + 1,
            ...Array.from({ length: n }, (_, column) => clean(b.h[row * n + column]!)),
            number(b.row_sums[row]!),
          ]),
        },
        {
          caption: "Singular values by layers multiplied",
          head: ["layers", ...Array.from({ length: n }, (_, i) => `σ${i + 1}`)],
          rows: Array.from({ length: layers }, (_, layer) => [
            layer + 1,
            ...Array.from({ length: n }, (_, i) => small(b.sigma_course[layer * 8 + i]!)),
          ]),
        },
      ]}
      buttons={
        <>
          <Button
            main
            onClick={() => widget.set({ init: s.init === "random" ? "initial" : "random" })}
          >
            {s.init === "random" ? "Show it as initialised" : "Show it at random"}
          </Button>
          <Button onClick={() => widget.set({ init: "trained" })} pressed={trained}>
            Show it trained
          </Button>
        </>
      }
      main={
        <Drawing
          width={course.width}
          height={course.height}
          class="main"
          label={`Singular values of the product as layers multiply, up to ${layers}. ${sentence}`}
        >
          <Axes
            area={course}
            x={x}
            y={y}
            xLabel="layers multiplied"
            yLabel="singular values of the product"
          >
            {shown.map((item, k) =>
              Array.from({ length: n }, (_, i) =>
                layers > 1 ? (
                  <path
                    class={`line ${colours[item.name]} ${i ? "" : "strong"} ${k ? "dashed" : ""}`}
                    data-sigma={i}
                    d={path(
                      steps,
                      sigma(item.b, i).map((value) => Math.max(low, value)),
                      x,
                      y,
                    )}
                  />
                ) : (
                  <circle
                    class={`dot ${colours[item.name]}`}
                    data-sigma={i}
                    cx={pixel(x(1))}
                    cy={pixel(y(Math.max(low, sigma(item.b, i)[0]!)))}
                    r="5"
                  />
                ),
              ),
            )}
          </Axes>
        </Drawing>
      }
      controls={["c", <Choose widget={widget} name="init" />, "layers"]}
      more={[
        "pin",
        <Slider widget={widget} name="scale" disabled={s.init !== "random"} />,
        "n",
        "it",
        "seed",
      ]}
    >
      {shown.map((item) => (
        <Panel name={item.name} b={item.b} n={n} />
      ))}
      <dl>
        <Fact name="second singular value" value={small(second)} />
        <Fact name="smallest" value={least < rounding ? small(least) : nearOne(least)} />
        <Fact name="det" value={clean(b.det)} />
      </dl>
      {unknown ? (
        <p class="hint">
          No language model with {name} was trained for these results: you see its start.
        </p>
      ) : trained ? (
        <p class="hint">Means over tokens of the 24 sublayers of a language model.</p>
      ) : null}
      <details class="note-fold">
        <summary>A note on Sinkhorn’s gradient</summary>
        <Sweeps />
      </details>
    </Figure>
  );
}

function Sweeps() {
  const { value: sweeps } = useOperator("sweeps", { off: -8, seed: 1 });
  const x = linear(0, 64, ...across(inset), 5);
  const y = linear(0, Math.max(1, sweeps.errors[0]!), ...upward(inset), 4);
  return (
    <>
      <p class="hint">
        JPmHC takes sixteen Gauss–Seidel sweeps. Where mHC starts, near the identity, they are still
        wrong by {percent(sweeps.errors[16]!)}; solving the small system directly is exact to{" "}
        {number(sweeps.direct)}.
      </p>
      <Drawing
        width={inset.width}
        height={inset.height}
        label={`Relative error of the gradient against sweeps: ${number(sweeps.errors[16]!)} after 16, ${number(sweeps.errors[64]!)} after 64.`}
      >
        <Axes area={inset} x={x} y={y} xLabel="sweeps" yLabel="relative error">
          <path
            class="line c-jpmhc"
            d={path(
              Array.from(sweeps.errors, (_, i) => i),
              sweeps.errors,
              x,
              y,
            )}
          />
          <circle class="dot c-jpmhc" cx={pixel(x(16))} cy={pixel(y(sweeps.errors[16]!))} r="5" />
        </Axes>
      </Drawing>
    </>
  );
}
