// γ and angle of every operator at the present position.
import { Drawing } from "../../charts/drawing.tsx";
import { pixel } from "../../charts/scales.ts";
import { degrees, number } from "../../controls/format.ts";
import type { Prediction } from "../../engine/predictor.ts";

export function Operators(props: {
  prediction: Prediction;
  info: { operators: number; gated: number; rotates: number };
  at: number;
  name: string;
}) {
  const { operators, gated, rotates } = props.info;
  if (!gated && !rotates)
    return <p class="hint">{props.name} adds: it has no gate and no angle to show.</p>;
  const probe = (operator: number, what: number) =>
    props.prediction.probes[(props.at * operators + operator) * 3 + what]!;
  const step = 360 / operators;
  const half = 52;
  return (
    <Drawing
      width={400}
      height={130}
      class="wide operators"
      label={`${props.name} at position ${props.at + 1}: ${Array.from({ length: operators }, (_, o) => `operator ${o + 1} γ ${number(probe(o, 0))}, angle ${degrees(probe(o, 2))}`).join("; ")}`}
    >
      <text x="2" y="11">
        γ (bar) and angle (needle) of each operator
      </text>
      <path class="grid-line" d={`M30 ${half + 50}H396M30 22H396`} />
      <text x="2" y="27">
        1
      </text>
      <text x="2" y={half + 54}>
        0
      </text>
      {Array.from({ length: operators }, (_, o) => {
        const gamma = probe(o, 0);
        const angle = probe(o, 2);
        const x = 34 + (o + 0.5) * step;
        const top = 22 + 80 * (1 - gamma);
        return (
          <g>
            {Number.isFinite(gamma) ? (
              <path
                class={`bar ${gamma > 0.5 ? "c-rotation" : "c-reflection"}`}
                data-operator={o}
                d={`M${pixel(x - 16)} ${pixel(top)}h12V102h-12Z`}
              />
            ) : null}
            {Number.isFinite(angle) ? (
              <g transform={`translate(${pixel(x + 14)} 62)`}>
                <circle class="ring-mark" r="13" />
                <path
                  class="line c-rotation"
                  transform={`rotate(${pixel((-angle * 180) / Math.PI)})`}
                  d="M0 0H13"
                />
              </g>
            ) : null}
            <text x={pixel(x)} y="122" text-anchor="middle">
              {o + 1}
            </text>
          </g>
        );
      })}
    </Drawing>
  );
}
