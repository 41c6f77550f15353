import { useState } from "preact/hooks";
import { across, Axes, plotArea, upward, vertical } from "../../charts/axes.tsx";
import { Drawing } from "../../charts/drawing.tsx";
import { linear, log, path, pixel, spread } from "../../charts/scales.ts";
import { Button, Checks, Scrub } from "../../controls/controls.tsx";
import { Figure } from "../../controls/figure.tsx";
import { list, number } from "../../controls/format.ts";
import { useOperator, useWidget } from "../../state/widget.ts";
import { pageResults } from "../../numbers/store.ts";
import { toQuery } from "../../state/fields.ts";
import { colours, common, fields, lines } from "./state.ts";

const names = Object.keys(lines);
const r = plotArea(460, 340, { left: 50, right: 92, top: 30 });
const strip = plotArea(330, 300, { left: 44, right: 10, top: 32 });
const layers = Array.from({ length: 97 }, (_, i) => i);
const least = 1e-12;

export function Drift() {
  const widget = useWidget("drift", fields);
  const s = widget.state;
  const [focus, setFocus] = useState("edelta");
  const inputs = {
    layers: s.L,
    g: s.g,
    alignment: s.a,
    gamma: s.gamma,
    beta: s.beta,
    seed: s.seed,
    backward: s.way === "backward" ? 1 : 0,
    focus: Math.max(0, names.indexOf(s.lines.includes(focus) ? focus : (s.lines[0] ?? "additive"))),
  };
  const { value: d, refusal } = useOperator("drift", inputs);
  // Twenty draws take too long for a drag: they are made when the page is built.
  const medians = pageResults().driftMedians;
  const asBuilt = toQuery(fields, { ...s, at: fields.at.first, lines: fields.lines.first }) === "";
  const shown = names.filter((name) => s.lines.includes(name));
  const course = (name: string) => {
    const line = names.indexOf(name);
    return d.norms.subarray(line * 97, line * 97 + s.L + 1);
  };
  const all = shown.flatMap((name) => Array.from(course(name))).filter((value) => value > 0);
  const low = Math.max(least, Math.min(0.5, ...all) / 1.5);
  const high = Math.max(2, ...all) * 1.4;
  const x = linear(0, s.L, ...across(r), 5);
  const y = log(low, high, ...upward(r));
  const at = Math.min(s.at, s.L);
  const ends = spread(
    shown.map((name) => y(Math.max(low, course(name)[s.L]!))),
    15,
    r.top + 4,
    r.height - r.bottom,
  );
  const sx = linear(0, s.L, ...across(strip), 3);
  const stream = (i: number) => layers.slice(0, s.L + 1).map((layer) => d.strip[layer * 4 + i]!);
  const streamValues = [0, 1, 2, 3].flatMap(stream).filter((value) => value > 0);
  const sy = log(
    Math.max(least, Math.min(0.5, ...streamValues) / 1.3),
    Math.max(1.5, ...streamValues) * 1.3,
    ...upward(strip),
  );
  const focused = names[inputs.focus]!;
  const said = shown.map((name) => `${lines[name]} ${number(course(name)[at]!, 2)}`);
  const sentence = `After ${at} layers: ${said.join(", ")}.`;
  const nearOne = shown.filter((name) => Math.abs(course(name)[s.L]! - 1) < 0.02);
  return (
    <Figure
      widget={widget}
      caption={
        s.g === 0 ? (
          <>
            Without a branch{" "}
            {nearOne.length === 0
              ? "none of these keeps the norm"
              : nearOne.length === 1
                ? `only the ${lines[nearOne[0]!]} keeps the norm`
                : `only ${list(nearOne.map((name) => lines[name]!))} keep the norm`}{" "}
            over <Scrub widget={widget} name="L" /> layers.
          </>
        ) : (
          <>
            With a branch of strength <Scrub widget={widget} name="g" /> every line drifts: the
            operator keeps what it carries, not the norm of the network.
          </>
        )
      }
      sentence={sentence}
      refusal={refusal}
      buttons={
        <Button onClick={() => widget.set({ g: s.g === 0 ? 0.1 : 0 })} pressed={s.g > 0}>
          {s.g === 0 ? "Add the branch" : "Remove the branch"}
        </Button>
      }
      table={() => [
        {
          caption: "‖x_l‖ / ‖x₀‖ by layer",
          head: ["layer", ...shown.map((name) => lines[name]!)],
          rows: layers
            .slice(0, s.L + 1)
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
      controls={[
        "L",
        "g",
        "gamma",
        <Checks widget={widget} name="lines" only={common} mark={mark} />,
      ]}
      more={[
        <Checks
          widget={widget}
          name="lines"
          only={names.filter((name) => !common.includes(name))}
          mark={mark}
        />,
        "a",
        "beta",
        "way",
        "seed",
      ]}
    >
      <Drawing
        width={r.width}
        height={r.height}
        class="main"
        label={`Norm over depth, one line a connection. ${sentence}`}
        follow
        tap
        handles={[
          {
            id: "layer",
            at: [x(at), r.height - r.bottom],
            colour: "c-quiet",
            bare: true,
            drag: (px) => widget.set({ at: Math.min(s.L, Math.max(0, Math.round(x.back(px)))) }),
            inputs: [
              {
                label: "layer read out",
                value: at,
                from: 0,
                to: s.L,
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
          yLabel="‖x_l‖ / ‖x₀‖"
        >
          <path class="reader" d={vertical(r, x(at))} />
          {shown.map((name, i) => (
            <>
              <path
                class={`line ${colours[name]} ${name === focused ? "strong" : ""}`}
                data-line={name}
                d={path(layers.slice(0, s.L + 1), course(name), x, y)}
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
      <div class="side">
        <p class="legend" id="drift-streams">
          The four streams of{" "}
          <select
            aria-label="line whose streams are shown"
            value={focused}
            onChange={(event) => setFocus((event.target as HTMLSelectElement).value)}
          >
            {shown.map((name) => (
              <option value={name} selected={name === focused}>
                {lines[name]}
              </option>
            ))}
          </select>
        </p>
        <Drawing
          width={strip.width}
          height={strip.height}
          label={`Norm of each of the four streams of ${lines[focused]} over depth.`}
        >
          <Axes area={strip} x={sx} y={sy} xLabel="layer" yLabel="norm of each stream">
            {[0, 1, 2, 3].map((i) => (
              <path
                class={`line ${i % 2 ? "thin" : ""} ${colours[focused]} ${["", "dotted", "dashed", "long"][i]}`}
                d={path(layers.slice(0, s.L + 1), stream(i), sx, sy)}
              />
            ))}
          </Axes>
        </Drawing>
      </div>
      {asBuilt && medians ? (
        <p class="hint">
          Median over twenty seeds after {s.L} layers:{" "}
          {names.map((name, i) => `${lines[name]} ${number(medians[i]!, 2)}`).join(", ")}.
        </p>
      ) : null}
    </Figure>
  );
}

const mark = (name: string) => <span class={`swatch ${colours[name]}`} aria-hidden="true" />;
