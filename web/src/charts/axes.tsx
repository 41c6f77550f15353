// Axes, lines, arrows, matrices: the parts that drawings are made of.
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { fixed, number } from "../controls/format.ts";
import { linear, pixel, type Scale } from "./scales.ts";

export interface PlotArea {
  width: number;
  height: number;
  left: number;
  right: number;
  top: number;
  bottom: number;
}

export const plotArea = (
  width: number,
  height: number,
  more: Partial<PlotArea> = {},
): PlotArea => ({
  width,
  height,
  left: 46,
  right: 14,
  top: 12,
  bottom: 38,
  ...more,
});

export const across = (r: PlotArea): [number, number] => [r.left, r.width - r.right];
export const upward = (r: PlotArea): [number, number] => [r.height - r.bottom, r.top];
export const vertical = (r: PlotArea, x: number) => `M${pixel(x)} ${r.top}V${r.height - r.bottom}`;

export function Axes(props: {
  area: PlotArea;
  x: Scale;
  y: Scale;
  xLabel: string;
  yLabel: string;
  xText?: (value: number) => string;
  yText?: (value: number) => string;
  children?: ComponentChildren;
}) {
  const { area: r, x, y } = props;
  const [left, right] = across(r);
  const [bottom, top] = upward(r);
  const xText = props.xText ?? number;
  const yText = props.yText ?? number;
  const frame = useMemo(
    () => (
      <>
        <g class="grid">
          {y.ticks.map((value) => (
            <path d={`M${pixel(left)} ${pixel(y(value))}H${pixel(right)}`} />
          ))}
        </g>
        <g class="axis">
          {y.ticks.map((value) => (
            <text x={left - 6} y={pixel(y(value) + 4)} text-anchor="end">
              {yText(value)}
            </text>
          ))}
          {x.ticks.map((value) => (
            <>
              <path d={`M${pixel(x(value))} ${pixel(bottom)}v5`} />
              <text x={pixel(x(value))} y={bottom + 18} text-anchor="middle">
                {xText(value)}
              </text>
            </>
          ))}
          <path d={`M${pixel(left)} ${pixel(bottom)}H${pixel(right)}`} />
          <text class="name" x={(left + right) / 2} y={r.height - 3} text-anchor="middle">
            {props.xLabel}
          </text>
          <text class="name" x="2" y={Math.max(11, top - 15)}>
            {props.yLabel}
          </text>
        </g>
      </>
    ),
    [x, y, props.xLabel, props.yLabel, props.xText, props.yText],
  );
  return (
    <g>
      {frame}
      {props.children}
    </g>
  );
}

// A square plane with the same scale both ways, its origin and the unit circle.
export interface Plane {
  x: Scale;
  y: Scale;
  unit: number;
}

export function plane(size: number, reach: number, left = 0, top = 0): Plane {
  const x = linear(-reach, reach, left, left + size);
  const y = linear(-reach, reach, top + size, top);
  return { x, y, unit: x(1) - x(0) };
}

export const Cross = ({ plane: p, circle = true }: { plane: Plane; circle?: boolean }) => (
  <g class="cross">
    <path d={`M${pixel(p.x(p.x.from))} ${pixel(p.y(0))}H${pixel(p.x(p.x.to))}`} />
    <path d={`M${pixel(p.x(0))} ${pixel(p.y(p.y.from))}V${pixel(p.y(p.y.to))}`} />
    {circle ? <circle cx={pixel(p.x(0))} cy={pixel(p.y(0))} r={pixel(p.unit)} /> : null}
  </g>
);

export function Arrow(props: {
  plane: Plane;
  to: readonly [number, number];
  colour: string;
  label?: string;
  thin?: boolean;
}) {
  const { plane: p } = props;
  const [x0, y0, x1, y1] = [p.x(0), p.y(0), p.x(props.to[0]), p.y(props.to[1])];
  const length = Math.hypot(x1 - x0, y1 - y0) || 1;
  const [dx, dy] = [(x1 - x0) / length, (y1 - y0) / length];
  const head = Math.min(9, length / 2);
  const tip = `M${pixel(x1)} ${pixel(y1)}L${pixel(x1 - head * dx - 0.45 * head * dy)} ${pixel(y1 - head * dy + 0.45 * head * dx)}L${pixel(x1 - head * dx + 0.45 * head * dy)} ${pixel(y1 - head * dy - 0.45 * head * dx)}Z`;
  return (
    <g class={`arrow ${props.colour}${props.thin ? " thin" : ""}`}>
      <path
        class="line"
        d={`M${pixel(x0)} ${pixel(y0)}L${pixel(x1 - 0.8 * head * dx)} ${pixel(y1 - 0.8 * head * dy)}`}
      />
      <path class="tip" d={tip} />
      {props.label ? (
        <text x={pixel(x1 + 8 * dx - 4)} y={pixel(y1 + 12 * dy + 4)}>
          {props.label}
        </text>
      ) : null}
    </g>
  );
}

// The letter F, whose image shows at once whether a map turns or mirrors.
const corners = [
  [-0.18, -0.36],
  [0.02, -0.36],
  [0.02, -0.08],
  [0.3, -0.08],
  [0.3, 0.1],
  [0.02, 0.1],
  [0.02, 0.24],
  [0.4, 0.24],
  [0.4, 0.42],
  [-0.18, 0.42],
] as const;

// Corner by corner: a singular map in a transform would draw nothing.
export const LetterF = (props: {
  plane: Plane;
  matrix?: ArrayLike<number>;
  colour: string;
  at?: readonly [number, number]; // the letter's position before the map
}) => {
  const { plane: p } = props;
  const m = props.matrix ?? [1, 0, 0, 1];
  const at = props.at ?? [0.62, 0.55];
  const image = corners.map(([x, y]) => {
    const [a, b] = [x + at[0], y + at[1]];
    return `${pixel(p.x(m[0]! * a + m[1]! * b))} ${pixel(p.y(m[2]! * a + m[3]! * b))}`;
  });
  return <path class={`letter ${props.colour}`} d={`M${image.join("L")}Z`} />;
};

// A matrix as a table of numbers with brackets.
export const Matrix = (props: {
  name: string;
  values: ArrayLike<number>;
  columns: number;
  digits?: number;
}) => (
  <div class="matrix" role="group" aria-label={props.name}>
    <span class="matrix-name">{props.name} =</span>
    <table>
      <tbody>
        {Array.from({ length: props.values.length / props.columns }, (_, row) => (
          <tr>
            {Array.from({ length: props.columns }, (_, column) => (
              <td>{fixed(props.values[row * props.columns + column]!, props.digits ?? 2)}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  </div>
);

// A labelled number next to a drawing.
export const Fact = (props: {
  name: ComponentChildren;
  value: ComponentChildren;
  colour?: string;
}) => (
  <div class={`fact ${props.colour ?? ""}`}>
    <dt>{props.name}</dt>
    <dd>{props.value}</dd>
  </div>
);
