import {
  across,
  Axes,
  Cross,
  Fact,
  plane,
  plotArea,
  upward,
  vertical,
} from "../../charts/axes.tsx";
import { Drawing } from "../../charts/drawing.tsx";
import { linear, log, path, pixel } from "../../charts/scales.ts";
import { Button, Scrub } from "../../controls/controls.tsx";
import { Figure } from "../../controls/figure.tsx";
import { clean, number, tenTo } from "../../controls/format.ts";
import { snap } from "../../state/fields.ts";
import { useOperator, useWidget } from "../../state/widget.ts";
import { fields, formulas, labelled } from "./state.ts";

const r = plotArea(420, 330, { left: 50, top: 30 });
const x = linear(0, 2.2, ...across(r), 5);
const y = log(1e-10, 30, ...upward(r));
const size = 300;
const p = plane(size, 1.75);
const stepsText = ["no step", "one step", "two steps", "three steps"];
const floor = (value: number) => Math.max(value, 1e-10);

export function Iterative() {
  const widget = useWidget("iterative", fields);
  const s = widget.state;
  const steps = Number(s.s);
  const fromIdentity = s.start === "identity" ? 1 : 0;
  const { value: it, refusal } = useOperator("iterative", {
    m: s.m,
    steps,
    from_identity: fromIdentity,
    ratio: s.ratio,
  });
  const effective = steps - fromIdentity; // from I the first step only makes I + αW
  const curve = (i: number) => it.formulas.slice(i * 111, (i + 1) * 111).map(floor);
  const minus = it.minus_identity < 1e-9;
  const formula = formulas[effective];
  // The polynomial is not monotonic: the smaller plane can be the worse one.
  const worse = it.plane_defect[1]! > it.plane_defect[0]! * (1 + 1e-9) ? 1 : 0;
  const law = it.plane_formula[worse]!;
  const sentence = `Defect ${clean(it.defect)} = ${formula} at m = ${number(it.plane_m[worse]!)}${minus ? "; Y is −I exactly" : ""}.`;
  const move = (m: number) => widget.set({ m: snap(fields.m, m) });
  return (
    <Figure
      widget={widget}
      caption={
        minus ? (
          <>
            At m = <Scrub widget={widget} name="m" /> in both planes, {stepsText[effective]} give −I
            exactly: the defect is zero again.
          </>
        ) : (
          <>
            At m = <Scrub widget={widget} name="m" />, {stepsText[steps]}{" "}
            {steps === 1 ? "leaves" : "leave"} Y {clean(it.defect)} away from orthogonal
            {worse
              ? `, in its second plane: there m is ${number(it.plane_m[1]!)}, and ${formula} = ${clean(law)}.`
              : `: ${formula} = ${clean(law)}.`}
          </>
        )
      }
      sentence={sentence}
      refusal={refusal}
      table={() => [
        {
          caption: "The two planes",
          head: ["plane", "m", "measured defect", "formula"],
          rows: [0, 1].map((i) => [
            i + 1,
            number(it.plane_m[i]!),
            number(it.plane_defect[i]!),
            number(it.plane_formula[i]!),
          ]),
        },
        {
          caption: "Defect against m, from Y₀ = I + αW",
          head: ["m", "1 step", "2 steps", "3 steps"],
          rows: Array.from(it.grid, (m, i) => [
            number(m),
            ...[1, 2, 3].map((k) => number(it.formulas[k * 111 + i]!)),
          ]),
        },
      ]}
      buttons={
        <Button main onClick={() => widget.set({ m: 2, ratio: 1, s: "2", start: "own" })}>
          Make it negate: m = 2
        </Button>
      }
      main={
        <Drawing
          width={r.width}
          height={r.height}
          class="main"
          label={`Orthogonality defect against m for one, two and three steps. ${sentence}`}
          handles={[
            {
              id: "m",
              at: [x(s.m), y(floor(it.plane_defect[0]!))],
              colour: "c-jpmhc",
              drag: (px) => move(x.back(px)),
              inputs: [
                {
                  label: "m on its curve",
                  value: s.m,
                  from: 0,
                  to: 2.2,
                  step: 0.022,
                  text: sentence,
                  set: move,
                },
              ],
            },
          ]}
        >
          <Axes area={r} x={x} y={y} xLabel="m = ‖αW‖₂" yLabel="defect ‖YᵀY − I‖₂">
            {[0, 1, 2, 3]
              .filter((k) => k > 0 || effective === 0)
              .map((k) => (
                <>
                  <path
                    class={`line c-jpmhc ${k === effective ? "strong" : "faint"} ${["dotted", "long", "", "dashed"][k]}`}
                    data-formula={k}
                    d={path(it.grid, curve(k), x, y)}
                  />
                  <text
                    class="label c-jpmhc"
                    x={pixel(x(it.grid[labelled[k]!]!))}
                    y={pixel(y(floor(it.formulas[k * 111 + labelled[k]!]!)) + (k < 3 ? -10 : 18))}
                    text-anchor={k < 3 ? "end" : "start"}
                  >
                    {formulas[k]}
                  </text>
                </>
              ))}
            <path class="line thin dashed c-quiet" d={vertical(r, x(it.limit))} />
            <text class="label c-quiet" x={pixel(x(it.limit) + 4)} y={r.height - r.bottom - 8}>
              below {tenTo(-3)} up to m = {number(it.limit, 4)}
            </text>
            <circle
              class="hollow c-jpmhc"
              cx={pixel(x(it.plane_m[1]!))}
              cy={pixel(y(floor(it.plane_defect[1]!)))}
              r="5"
            />
          </Axes>
        </Drawing>
      }
      controls={["m", "s"]}
      more={["start", "ratio"]}
    >
      <Drawing
        width={size}
        height={size}
        label={`Eigenvalues of Y ${Array.from(it.re, (re, i) => `${number(re)} and ${number(it.im[i]!)}i`).join("; ")}, next to those of the exact map on the circle.`}
      >
        <circle class="disc" cx={pixel(p.x(0))} cy={pixel(p.y(0))} r={pixel(p.unit)} />
        <Cross plane={p} />
        {Array.from(it.exact_re, (re, i) => (
          <circle
            class="hollow c-rotation"
            cx={pixel(p.x(re))}
            cy={pixel(p.y(it.exact_im[i]!))}
            r="6"
          />
        ))}
        {Array.from(it.re, (re, i) => (
          <circle
            class="dot c-jpmhc"
            data-eigenvalue={i}
            cx={pixel(p.x(re))}
            cy={pixel(p.y(it.im[i]!))}
            r="5"
          />
        ))}
      </Drawing>
      <p class="legend">
        <span class="c-jpmhc">● eigenvalues of Y</span>{" "}
        <span class="c-rotation">○ exact Cayley</span>
      </p>
      <dl>
        <Fact name="defect ‖YᵀY − I‖₂" value={clean(it.defect)} />
        <Fact name={`${formula} at m = ${number(it.plane_m[worse]!)}`} value={clean(law)} />
        <Fact name="distance to −I" value={clean(it.minus_identity)} />
      </dl>
    </Figure>
  );
}
