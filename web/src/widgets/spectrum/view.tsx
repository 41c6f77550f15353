import { useEffect, useRef, useState } from "preact/hooks";
import { Fact } from "../../charts/axes.tsx";
import { Drawing } from "../../charts/drawing.tsx";
import { Button } from "../../controls/controls.tsx";
import { Figure } from "../../controls/figure.tsx";
import { number, percent, several } from "../../controls/format.ts";
import { compute } from "../../engine/engine.ts";
import { pageResults, trainedDepth, trainedMixers } from "../../numbers/store.ts";
import { firstState, type State, toQuery } from "../../state/fields.ts";
import { useWidget } from "../../state/widget.ts";
import { Density, r, scales } from "./chart.tsx";
import { type Request, type Spectrum as Solved } from "./solve.ts";
import { connections } from "../streams/state.ts";
import { connectionOf, fields, mixers } from "./state.ts";
import { useSpectrum } from "./use_spectrum.ts";

const order = Object.keys(mixers);

// Mixers as they start, or as training left them, layer by layer.
function givenMixers(s: State<typeof fields>): Request["given"] {
  const connection = connectionOf[s.mixer];
  if (s.init === "random" || !connection) return undefined;
  const trained = s.init === "trained" ? trainedMixers(connection) : null;
  const depth = depthOf(s);
  const start = (layer: number) =>
    compute("operators", "bench", {
      connection: Object.keys(connections).indexOf(connection),
      n: 4,
      scale: 1,
      initial: 1,
      seed: s.seed + 1000 * layer,
      iterations: 20,
      layers: 1,
      given: 0,
      trained: nothing,
    }).h.slice(0, 16);
  return {
    mixers: Array.from({ length: depth }, (_, layer) =>
      Array.from(trained ? trained.slice(16 * layer, 16 * layer + 16) : start(layer)),
    ),
    sigma2: Array<number>(depth).fill(s.s2 / depth),
  };
}
const nothing = Array<number>(384).fill(0);
const depthOf = (s: State<typeof fields>) =>
  s.init === "trained" && connectionOf[s.mixer] ? Math.min(s.L, trainedDepth) : s.L;

export const requestOf = (s: State<typeof fields>): Request => {
  const given = givenMixers(s);
  return {
    mixer: given ? 8 : order.indexOf(s.mixer),
    streams: 4,
    depth: depthOf(s),
    sigma2: s.s2,
    eta: s.eta,
    seed: s.seed,
    printed: s.printed === "on",
    block: s.p,
    samples: s.mc === "on" ? s.samples : 0,
    ...(given ? { given } : {}),
  };
};

export const firstRequest = () => requestOf(firstState(fields));

export function Spectrum() {
  const widget = useWidget("spectrum", fields);
  const s = widget.state;
  const first = pageResults().spectrum;
  const moved = toQuery(fields, s) !== "";
  const { value, refusal, working } = useSpectrum(requestOf(s), first ?? null, moved);
  const solved = value ?? first!;
  const history = useHistory(solved, s.mixer);
  const [reader, setReader] = useState<number | null>(null);
  const [playing, play] = usePlay(s.L, (L) => widget.set({ L }), widget.resets);
  const { x } = scales(solved);
  const at = reader ?? solved.s[0]!;
  const nearest = solved.s.reduce(
    (best, item, i) => (Math.abs(item - at) < Math.abs(solved.s[best]! - at) ? i : best),
    0,
  );
  const theory = solved.theory;
  const connection = connectionOf[s.mixer];
  const without = s.init === "trained" && connection !== undefined && !trainedMixers(connection);
  const which = !connection
    ? ""
    : s.init === "trained" && !without
      ? "trained "
      : s.init === "random"
        ? "random "
        : "freshly initialised ";
  const depth = depthOf(s);
  const behind = `After ${depth} ${which}layer${depth === 1 ? "" : "s"}`;
  const missed = solved.printed ? apart(solved, solved.printed) : NaN;
  const sentence = !theory
    ? "Computing."
    : `${percent(theory.near_zero)} of the singular values are below 0.1${Number.isNaN(theory.low) ? "" : `; the middle 90% within ${number(theory.low)} and ${number(theory.high)}`}.`;
  const read = (at: number) => setReader(Math.min(x.to, Math.max(0, at)));
  return (
    <Figure
      widget={widget}
      caption={
        !theory
          ? `Computing the spectrum of ${several(depth, "layer")} …`
          : solved.printed
            ? missed > 0.1
              ? `The printed equation misses: the area between it and the theory is ${number(missed)}.`
              : `Here the printed equation lies close to the theory: the area between them is ${number(missed)}.`
            : theory.near_zero > 0.2
              ? `${behind} ${percent(theory.near_zero)} of the directions are lost: the spike at 0.`
              : theory.near_zero > 1e-3
                ? `${behind} only ${percent(theory.near_zero)} of the singular values are below 0.1.`
                : `${behind} no direction is lost: the singular values spread around 1.`
      }
      sentence={sentence}
      refusal={refusal || solved.printedRefusal}
      buttons={
        <>
          <Button main onClick={play} pressed={playing}>
            {playing ? "Pause" : "Play depth"}
          </Button>
          <Button
            onClick={() =>
              widget.set({ ...firstState(fields), mixer: "identity", s2: 0.3, printed: "on" })
            }
          >
            Where the printed equation fails
          </Button>
        </>
      }
      table={() => ({
        caption: `Density of the singular values, ${mixers[s.mixer]}, depth ${s.L}`,
        head: [
          "s",
          "theory",
          ...(solved.printed ? ["as printed"] : []),
          ...(solved.sampled ? ["samples, same blur"] : []),
        ],
        rows: solved.s.map((value, i) => [
          number(value),
          number(solved.rho[i]!),
          ...(solved.printed ? [number(solved.printed[i]!)] : []),
          ...(solved.sampled ? [number(solved.sampled.rho[i]!)] : []),
        ]),
      })}
      main={
        <Drawing
          width={r.width}
          height={r.height}
          label={`Density of singular values: theory as a line, samples as a histogram. ${sentence}`}
          class={working ? "working" : ""}
          hover={(px) => (px === null ? setReader(null) : read(x.back(px)))}
          tap
          handles={[
            {
              id: "reader",
              at: [x(at), r.height - r.bottom],
              colour: "c-quiet",
              bare: true,
              drag: (px) => read(x.back(px)),
              inputs: [
                {
                  label: "read the density at s",
                  value: at,
                  from: 0,
                  to: x.to,
                  text: `s ${number(at)}: density ${number(solved.rho[nearest]!)}`,
                  set: read,
                },
              ],
            },
          ]}
        >
          <Density value={solved} history={moved ? history : []} reader={reader} />
        </Drawing>
      }
      controls={["mixer", "init", "L"]}
      more={["s2", "printed", "eta", "mc", "p", "samples", "seed"]}
    >
      <p class="legend">
        <span class="c-rotation">━ theory, blurred by η = {number(s.eta)}</span>{" "}
        {solved.sampled ? <span class="c-ink">╍ samples, the same blur</span> : null}{" "}
        <span class="c-quiet">▇ samples, unblurred</span>{" "}
        {solved.printed ? <span class="c-reflection">╍ as printed</span> : null}
      </p>
      <div
        class="scroll plain"
        tabIndex={0}
        role="region"
        aria-label="Theory and samples in numbers"
      >
        <table>
          <thead>
            <tr>
              <th scope="col">quantity</th>
              <th scope="col">theory</th>
              <th scope="col">samples</th>
            </tr>
          </thead>
          <tbody>
            <Compared name="below 0.1" of={solved} read={(item) => percent(item.near_zero)} />
            <Compared name="5% quantile" of={solved} read={(item) => number(item.low)} />
            <Compared name="95% quantile" of={solved} read={(item) => number(item.high)} />
            <Compared name="mean of s²" of={solved} read={(item) => number(item.first)} />
          </tbody>
        </table>
      </div>
      <dl>
        <Fact name="mean of s², exactly" value={number(solved.exact)} />
        {solved.sampled ? (
          <Fact name="area between theory and samples" value={number(solved.sampled.distance)} />
        ) : null}
        {reader !== null ? (
          <Fact
            name={`density at ${number(solved.s[nearest]!)}`}
            value={number(solved.rho[nearest]!)}
          />
        ) : null}
      </dl>
      {without ? (
        <p class="hint">No language model with these mixers was trained: you see their start.</p>
      ) : null}
    </Figure>
  );
}

const Compared = (props: {
  name: string;
  of: Solved;
  read: (item: { near_zero: number; low: number; high: number; first: number }) => string;
}) => (
  <tr>
    <th scope="row">{props.name}</th>
    <td>{props.of.theory ? props.read(props.of.theory).replace("–", "…") : "…"}</td>
    <td>{props.of.sampled ? props.read(props.of.sampled) : "–"}</td>
  </tr>
);

// The last four finished curves of the same mixer.
function useHistory(value: Solved, mixer: string): readonly Solved[] {
  const [history, setHistory] = useState<readonly Solved[]>([]);
  const last = useRef<Solved | null>(null);
  useEffect(() => {
    last.current = null;
    setHistory([]);
  }, [mixer]);
  useEffect(() => {
    if (!value.done) {
      const finished = last.current;
      if (finished) {
        last.current = null;
        setHistory((old) => [...old, finished].slice(-4));
      }
    } else last.current = value;
  }, [value]);
  return history;
}

// The area between the theory and another curve.
const apart = (of: Solved, other: readonly number[]) =>
  of.s.reduce(
    (sum, at, i) =>
      sum + (i ? (at - of.s[i - 1]!) * Math.abs(of.rho[i]! - (other[i] ?? of.rho[i]!)) : 0),
    0,
  );

function usePlay(
  depth: number,
  set: (depth: number) => void,
  resets: number,
): [boolean, () => void] {
  const [playing, setPlaying] = useState(false);
  useEffect(() => setPlaying(false), [resets]);
  useEffect(() => {
    if (!playing) return;
    if (depth >= 48) {
      setPlaying(false);
      return;
    }
    const timer = setTimeout(() => set(Math.min(48, Math.ceil(depth * 1.4))), 900);
    return () => clearTimeout(timer);
  }, [playing, depth]);
  return [
    playing,
    () => {
      if (!playing) set(depth >= 48 ? 1 : Math.ceil(depth * 1.4));
      setPlaying(!playing);
    },
  ];
}
