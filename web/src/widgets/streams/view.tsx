import { useState } from "preact/hooks";
import { across, Axes, Cross, plane, plotArea, upward } from "../../charts/axes.tsx";
import { Drawing } from "../../charts/drawing.tsx";
import { linear, log, path, pixel } from "../../charts/scales.ts";
import { Slider } from "../../controls/controls.tsx";
import { Figure } from "../../controls/figure.tsx";
import { fixed, number } from "../../controls/format.ts";
import { compute } from "../../engine/engine.ts";
import { useComputed, useOperator, useWidget } from "../../state/widget.ts";
import { colours, connections, fields } from "./state.ts";

const order = Object.keys(connections);
const eigen = 150;
const p = plane(eigen, 1.6);
const course = plotArea(220, 176, { left: 42, right: 8, top: 32 });
const line = plotArea(380, 74, { left: 14, right: 14, top: 26, bottom: 22 });
const lineX = linear(0, 1.5, ...across(line), 4);
const inset = plotArea(360, 230, { left: 50, top: 38 });

type Bench = ReturnType<typeof bench>;

function bench(connection: string, inputs: Omit<BenchInputs, "connection">) {
  return compute("operators", "bench", { ...inputs, connection: order.indexOf(connection) });
}
interface BenchInputs {
  connection: number;
  n: number;
  scale: number;
  initial: number;
  seed: number;
  iterations: number;
  layers: number;
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

function One({ name, b, n, layers }: { name: string; b: Bench; n: number; layers: number }) {
  const colour = colours[name]!;
  const steps = Array.from({ length: layers }, (_, i) => i + 1);
  const sigma = (i: number) => steps.map((step) => b.sigma_course[(step - 1) * 8 + i]!);
  const all = Array.from({ length: n }, (_, i) => sigma(i))
    .flat()
    .filter((value) => value > 1e-16);
  const x = linear(1, Math.max(5, layers), ...across(course), 4);
  const y = log(
    Math.max(1e-12, Math.min(0.5, ...all) / 1.5),
    Math.max(1.5, ...all) * 1.3,
    ...upward(course),
  );
  const shown = `singular values ${Array.from(b.sigma.subarray(0, n), (value) => number(value)).join(", ")}`;
  return (
    <div class="bench">
      <p class="panel-title">{connections[name]}</p>
      <Grid b={b} n={n} name={connections[name]!} />
      <Drawing width={line.width} height={line.height} label={`${connections[name]}: ${shown}`}>
        <text class="name" x={line.left} y="12">
          singular values
        </text>
        <path
          class="axis-line"
          d={`M${line.left} ${line.height - line.bottom}H${line.width - line.right}`}
        />
        {lineX.ticks.map((tick) => (
          <text x={pixel(lineX(tick))} y={line.height - 4} text-anchor="middle">
            {number(tick)}
          </text>
        ))}
        {Array.from(b.sigma.subarray(0, n), (value) => (
          <circle
            class={`dot ${colour}`}
            cx={pixel(lineX(Math.min(1.5, value)))}
            cy={line.height - line.bottom - 8}
            r="5.5"
          />
        ))}
      </Drawing>
      <div class="two">
        <Drawing
          width={eigen}
          height={eigen}
          label={`Eigenvalues: ${Array.from({ length: n }, (_, i) => `${number(b.re[i]!)} ${b.im[i]! < 0 ? "−" : "+"} ${number(Math.abs(b.im[i]!))}i`).join("; ")}`}
        >
          <Cross plane={p} />
          <text class="name" x="4" y="12">
            eigenvalues
          </text>
          {Array.from({ length: n }, (_, i) => (
            <circle
              class={`dot ${colour}`}
              cx={pixel(p.x(Math.max(-1.6, Math.min(1.6, b.re[i]!))))}
              cy={pixel(p.y(Math.max(-1.6, Math.min(1.6, b.im[i]!))))}
              r="5"
            />
          ))}
        </Drawing>
        <Drawing
          width={course.width}
          height={course.height}
          label={`Singular values of the product as layers multiply, up to ${layers}.`}
        >
          <Axes
            area={course}
            x={x}
            y={y}
            xLabel="layers multiplied"
            yLabel="singular values, by layer"
          >
            {Array.from({ length: n }, (_, i) =>
              layers > 1 ? (
                <path
                  class={`line ${colour} ${i ? "" : "strong"}`}
                  d={path(steps, sigma(i), x, y)}
                />
              ) : (
                <circle
                  class={`dot ${colour}`}
                  cx={pixel(x(1))}
                  cy={pixel(y(sigma(i)[0]!))}
                  r="4"
                />
              ),
            )}
          </Axes>
        </Drawing>
      </div>
    </div>
  );
}

export function Streams() {
  const widget = useWidget("streams", fields);
  const s = widget.state;
  const n = s.c === "mhc_lite" || s.pin === "mhc_lite" ? Math.min(6, s.n) : s.n;
  const inputs = {
    n,
    scale: s.scale,
    initial: s.init === "initial" ? 1 : 0,
    seed: s.seed,
    iterations: s.it,
    layers: s.layers,
  };
  const key = Object.values(inputs);
  const { value: b, refusal } = useComputed(() => bench(s.c, inputs), [s.c, ...key]);
  const pinned = useComputed(
    () => (s.pin === "none" ? null : bench(s.pin, inputs)),
    [s.pin, ...key],
  );
  const { value: sweeps } = useOperator("sweeps", { off: -8, seed: s.seed });
  const range = (values: Float64Array) => {
    const part = Array.from(values.subarray(0, n));
    const [low, high] = [Math.min(...part), Math.max(...part)];
    return high - low < 5e-3 ? number(Number(low.toFixed(4))) : `${number(low)} to ${number(high)}`;
  };
  const sentence = `Row sums ${range(b.row_sums)}, column sums ${range(b.column_sums)}, second singular value ${number(b.sigma[1]!)}, det ${number(b.det)}.`;
  const keepsSums = range(b.row_sums) === "1" && range(b.column_sums) === "1";
  const keepsAll = b.sigma[n - 1]! > 0.99 && b.sigma[0]! < 1.01;
  const sx = linear(0, 64, ...across(inset), 5);
  const sy = log(1e-17, Math.max(50, 3 * sweeps.errors[0]!), ...upward(inset));
  return (
    <Figure
      widget={widget}
      caption={
        keepsAll
          ? `${connections[s.c]} keeps every direction: all singular values are 1.`
          : keepsSums
            ? `${connections[s.c]} keeps the mean stream: sums are 1, but the other directions shrink to ${number(b.sigma[1]!)} and less.`
            : `${connections[s.c]} with ${s.layers === 1 ? "one layer" : `${s.layers} layers`}: singular values from ${number(b.sigma[0]!)} down to ${number(b.sigma[n - 1]!)}.`
      }
      sentence={sentence}
      refusal={refusal || pinned.refusal}
      table={() => [
        {
          caption: `${connections[s.c]}, product of ${s.layers} layers`,
          head: ["row", ...Array.from({ length: n }, (_, i) => String(i + 1)), "sum"],
          rows: Array.from({ length: n }, (_, row) => [
            row + 1,
            ...Array.from({ length: n }, (_, column) => number(b.h[row * n + column]!)),
            number(b.row_sums[row]!),
          ]),
        },
        {
          caption: "Singular values by layers multiplied",
          head: ["layers", ...Array.from({ length: n }, (_, i) => `σ${i + 1}`)],
          rows: Array.from({ length: s.layers }, (_, layer) => [
            layer + 1,
            ...Array.from({ length: n }, (_, i) => number(b.sigma_course[layer * 8 + i]!)),
          ]),
        },
      ]}
      controls={[
        "c",
        "layers",
        <Slider widget={widget} name="scale" disabled={s.init === "initial"} />,
        "pin",
      ]}
      more={["n", "init", "it", "seed"]}
    >
      <One name={s.c} b={b} n={n} layers={s.layers} />
      {pinned.value && s.pin !== "none" ? (
        <One name={s.pin} b={pinned.value} n={n} layers={s.layers} />
      ) : (
        <div class="bench">
          <p class="panel-title">Sinkhorn's gradient where mHC starts</p>
          <p>
            JPmHC takes {16} Gauss–Seidel sweeps. Near the identity they are still wrong by{" "}
            {number(100 * sweeps.errors[16]!)} %; the direct solve by {number(sweeps.direct)}.
          </p>
          <Drawing
            width={inset.width}
            height={inset.height}
            label={`Relative error of the gradient against sweeps: ${number(sweeps.errors[16]!)} after 16, ${number(sweeps.errors[64]!)} after 64. Direct solve: ${number(sweeps.direct)}.`}
          >
            <Axes area={inset} x={sx} y={sy} xLabel="sweeps" yLabel="relative error">
              <path
                class="line c-jpmhc"
                d={path(
                  Array.from(sweeps.errors, (_, i) => i),
                  sweeps.errors,
                  sx,
                  sy,
                )}
              />
              <path
                class="line dashed c-mhc"
                d={`M${inset.left} ${pixel(sy(Math.max(1e-16, sweeps.direct)))}H${inset.width - inset.right}`}
              />
              <text
                class="label c-mhc"
                x={inset.width - inset.right}
                y={pixel(sy(Math.max(1e-16, sweeps.direct)) - 6)}
                text-anchor="end"
              >
                direct solve
              </text>
              <circle
                class="dot c-jpmhc"
                cx={pixel(sx(16))}
                cy={pixel(sy(sweeps.errors[16]!))}
                r="5"
              />
            </Axes>
          </Drawing>
        </div>
      )}
    </Figure>
  );
}
