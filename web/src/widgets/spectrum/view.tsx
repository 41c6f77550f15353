import { useEffect, useRef, useState } from "preact/hooks";
import { Fact } from "../../charts/axes.tsx";
import { Drawing } from "../../charts/drawing.tsx";
import { Button } from "../../controls/controls.tsx";
import { Figure } from "../../controls/figure.tsx";
import { number, percent } from "../../controls/format.ts";
import { pageResults } from "../../numbers/store.ts";
import { firstState, type State, toQuery } from "../../state/fields.ts";
import { useWidget } from "../../state/widget.ts";
import { Density, r, scales } from "./chart.tsx";
import { type Request, type Spectrum as Solved } from "./solve.ts";
import { fields, mixers } from "./state.ts";
import { useSpectrum } from "./use_spectrum.ts";

const order = Object.keys(mixers);

export const requestOf = (s: State<typeof fields>): Request => ({
  mixer: order.indexOf(s.mixer),
  streams: 4,
  depth: s.L,
  sigma2: s.s2,
  eta: s.eta,
  seed: s.seed,
  printed: s.printed === "on",
  block: s.p,
  samples: s.mc === "on" ? s.samples : 0,
});

export const firstRequest = () => requestOf(firstState(fields));

export function Spectrum() {
  const widget = useWidget("spectrum", fields);
  const s = widget.state;
  const first = pageResults().spectrum;
  const moved = toQuery(fields, s) !== "";
  const { value, refusal, working } = useSpectrum(requestOf(s), first ?? null, moved);
  const solved = value ?? first!;
  const history = useHistory(solved);
  const [reader, setReader] = useState<number | null>(null);
  const [playing, play] = usePlay(s.L, (L) => widget.set({ L }), widget.resets);
  const { x } = scales(solved);
  const at = reader ?? solved.s[0]!;
  const nearest = solved.s.reduce(
    (best, item, i) => (Math.abs(item - at) < Math.abs(solved.s[best]! - at) ? i : best),
    0,
  );
  const theory = solved.theory;
  const sentence = theory
    ? `${percent(theory.near_zero)} of the singular values are below 0.1; the middle 90 % within ${number(theory.low)} and ${number(theory.high)}.`
    : "Computing.";
  const read = (at: number) => setReader(Math.min(x.to, Math.max(0, at)));
  return (
    <Figure
      widget={widget}
      caption={
        theory && theory.near_zero > 0.2
          ? `After ${s.L} layers ${percent(theory.near_zero)} of the gradient's directions are lost: the spike at 0.`
          : `After ${s.L} layers the singular values are still around 1.`
      }
      sentence={sentence}
      refusal={refusal || solved.printedRefusal}
      buttons={
        <Button onClick={play} pressed={playing}>
          {playing ? "Pause" : "Play depth"}
        </Button>
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
      controls={["mixer", "L", "s2", "printed"]}
      more={["eta", "mc", "p", "samples", "seed"]}
    >
      <Drawing
        width={r.width}
        height={r.height}
        label={`Density of singular values: theory as a line, samples as a histogram. ${sentence}`}
        class={working ? "working" : ""}
        follow
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
      <div class="side">
        <p class="legend">
          <span class="c-rotation">━ theory</span> <span class="c-quiet">▇ samples</span>
          {s.printed === "on" ? <span class="c-reflection">╍ as printed</span> : null}
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
              <Compared name="5 % quantile" of={solved} read={(item) => number(item.low)} />
              <Compared name="95 % quantile" of={solved} read={(item) => number(item.high)} />
              <Compared name="E s²" of={solved} read={(item) => number(item.first)} />
            </tbody>
          </table>
        </div>
        <dl>
          <Fact name="E s² by recursion" value={number(solved.exact)} />
          {solved.sampled ? (
            <Fact name="L1 distance" value={number(solved.sampled.distance)} />
          ) : null}
          {reader !== null ? (
            <Fact
              name={`density at ${number(solved.s[nearest]!)}`}
              value={number(solved.rho[nearest]!)}
            />
          ) : null}
        </dl>
      </div>
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
    <td>{props.of.theory ? props.read(props.of.theory) : "…"}</td>
    <td>{props.of.sampled ? props.read(props.of.sampled) : "–"}</td>
  </tr>
);

// The last four finished curves.
function useHistory(value: Solved): readonly Solved[] {
  const [history, setHistory] = useState<readonly Solved[]>([]);
  const last = useRef<Solved | null>(null);
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
