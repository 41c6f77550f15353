// Axes, lines, arrows, matrices: the parts that drawings are made of.
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { fixed, number } from "../controls/format.ts";
import { linear, place, type Scale } from "./scales.ts";

export interface Room {
  width: number;
  height: number;
  left: number;
  right: number;
  top: number;
  bottom: number;
}

export const room = (width: number, height: number, more: Partial<Room> = {}): Room => ({
  width,
  height,
  left: 46,
  right: 14,
  top: 12,
  bottom: 38,
  ...more,
});

export const across = (r: Room): [number, number] => [r.left, r.width - r.right];
export const upward = (r: Room): [number, number] => [r.height - r.bottom, r.top];
export const vertical = (r: Room, x: number) => `M${place(x)} ${r.top}V${r.height - r.bottom}`;

export function Axes(props: {
  room: Room;
  x: Scale;
  y: Scale;
  xLabel: string;
  yLabel: string;
  xText?: (value: number) => string;
  yText?: (value: number) => string;
  children?: ComponentChildren;
}) {
  const { room: r, x, y } = props;
  const [left, right] = across(r);
  const [bottom, top] = upward(r);
  const xText = props.xText ?? number;
  const yText = props.yText ?? number;
  const frame = useMemo(
    () => (
      <>
        <g class="grid">
          {y.ticks.map((value) => (
            <path d={`M${place(left)} ${place(y(value))}H${place(right)}`} />
          ))}
        </g>
        <g class="axis">
          {y.ticks.map((value) => (
            <text x={left - 6} y={place(y(value) + 4)} text-anchor="end">
              {yText(value)}
            </text>
          ))}
          {x.ticks.map((value) => (
            <>
              <path d={`M${place(x(value))} ${place(bottom)}v5`} />
              <text x={place(x(value))} y={bottom + 18} text-anchor="middle">
                {xText(value)}
              </text>
            </>
          ))}
          <path d={`M${place(left)} ${place(bottom)}H${place(right)}`} />
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
    <path d={`M${place(p.x(p.x.from))} ${place(p.y(0))}H${place(p.x(p.x.to))}`} />
    <path d={`M${place(p.x(0))} ${place(p.y(p.y.from))}V${place(p.y(p.y.to))}`} />
    {circle ? <circle cx={place(p.x(0))} cy={place(p.y(0))} r={place(p.unit)} /> : null}
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
  const tip = `M${place(x1)} ${place(y1)}L${place(x1 - head * dx - 0.45 * head * dy)} ${place(y1 - head * dy + 0.45 * head * dx)}L${place(x1 - head * dx + 0.45 * head * dy)} ${place(y1 - head * dy - 0.45 * head * dx)}Z`;
  return (
    <g class={`arrow ${props.colour}${props.thin ? " thin" : ""}`}>
      <path
        class="line"
        d={`M${place(x0)} ${place(y0)}L${place(x1 - 0.8 * head * dx)} ${place(y1 - 0.8 * head * dy)}`}
      />
      <path class="tip" d={tip} />
      {props.label ? (
        <text x={place(x1 + 8 * dx - 4)} y={place(y1 + 12 * dy + 4)}>
          {props.label}
        </text>
      ) : null}
    </g>
  );
}

// The letter F, whose image shows at once whether a map turns or mirrors.
const letter = "M-0.18 -0.36H0.02V-0.08H0.3V0.1H0.02V0.24H0.4V0.42H-0.18Z";

export const LetterF = (props: {
  plane: Plane;
  matrix?: ArrayLike<number>;
  colour: string;
  at?: readonly [number, number]; // where the letter stands before the map
}) => {
  const { plane: p } = props;
  const m = props.matrix ?? [1, 0, 0, 1];
  const at = props.at ?? [0.62, 0.55];
  const four = (value: number) => value.toFixed(4).replace(/\.?0+$/, "");
  const numbers = [m[0]!, m[2]!, m[1]!, m[3]!].map(four);
  return (
    <g
      transform={`translate(${place(p.x(0))} ${place(p.y(0))}) scale(${place(p.unit)} ${place(-p.unit)})`}
    >
      <path
        class={`letter ${props.colour}`}
        vector-effect="non-scaling-stroke"
        transform={`matrix(${numbers.join(" ")} 0 0) translate(${at[0]} ${at[1]})`}
        d={letter}
      />
    </g>
  );
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

// A labelled number beside a drawing.
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
