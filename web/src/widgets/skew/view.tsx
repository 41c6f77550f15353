import { Arrow, Cross, Fact, Matrix, plane } from "../../charts/axes.tsx";
import { Drawing, type Handle } from "../../charts/drawing.tsx";
import { pixel } from "../../charts/scales.ts";
import { Figure } from "../../controls/figure.tsx";
import { fixed, number } from "../../controls/format.ts";
import { useOperator, useWidget } from "../../state/widget.ts";
import { fields } from "./state.ts";

const size = 360;
const p = plane(size, 2.12);
const near = 2; // points this close to parallel (in px) become parallel

const dyadic = (value: number, parts: number) => Math.round(value * parts) / parts;
const within = (value: number) => Math.min(2, Math.max(-2, value));

export function Skew() {
  const widget = useWidget("skew", fields);
  const s = widget.state;
  const { value: r, refusal } = useOperator("skew", s);
  const flat = s.uz === 0 && s.vz === 0;

  // Moves one point; where it comes close to the line of the other it is put on that line exactly
  // (on a grid of binary fractions, so that the products cancel to the last bit).
  const move = (which: "u" | "v", x: number, y: number) => {
    const other = which === "u" ? "v" : "u";
    let at = [dyadic(within(p.x.back(x)), 128), dyadic(within(p.y.back(y)), 128)];
    let fixedPoint = [s[`${other}x`], s[`${other}y`]];
    const area = at[0]! * fixedPoint[1]! - at[1]! * fixedPoint[0]!;
    const square = fixedPoint[0]! ** 2 + fixedPoint[1]! ** 2;
    if (flat && area ** 2 * p.unit ** 2 <= near ** 2 * square && square > 0.01) {
      fixedPoint = fixedPoint.map((value) => dyadic(value, 128));
      const along = at[0]! * fixedPoint[0]! + at[1]! * fixedPoint[1]!;
      const factor = dyadic(along / square, 32);
      at = fixedPoint.map((value) => within(factor * value));
    }
    widget.set({
      [`${which}x`]: at[0],
      [`${which}y`]: at[1],
      [`${other}x`]: fixedPoint[0],
      [`${other}y`]: fixedPoint[1],
    });
  };
  const handle = (which: "u" | "v", colour: string): Handle => ({
    id: which,
    at: [p.x(s[`${which}x`]), p.y(s[`${which}y`])],
    colour,
    label: which,
    drag: (x, y) => move(which, x, y),
    inputs: (["x", "y"] as const).map((axis) => ({
      label: fields[`${which}${axis}`].label,
      value: s[`${which}${axis}`],
      from: -2,
      to: 2,
      step: 0.04,
      set: (value) => widget.set({ [`${which}${axis}`]: Number(value.toFixed(6)) }),
    })),
  });

  const area = number(flat ? r.area : r.mu);
  const sentence = r.exists
    ? `Area ${area}. A is skew: the largest entry of A + Aᵀ is ${number(r.skewness)}. A rotation plane exists.`
    : "u and v are parallel, A is zero: no plane, Q = I.";
  const corner = (x: number, y: number) => `${pixel(p.x(x))} ${pixel(p.y(y))}`;
  const matrix = flat ? [r.a[0]!, r.a[1]!, r.a[3]!, r.a[4]!] : r.a;
  return (
    <Figure
      widget={widget}
      caption={
        r.exists
          ? `The parallelogram's area, ${area}, is all that A depends on besides the plane of u and v.`
          : "Parallel vectors span no plane: A = 0, and the rotation is the identity."
      }
      sentence={sentence}
      refusal={refusal}
      table={() => ({
        caption: "u, v and the generator A = uvᵀ − vuᵀ",
        head: ["quantity", "value"],
        rows: [
          ["u", [s.ux, s.uy, s.uz].map((value) => fixed(value)).join(", ")],
          ["v", [s.vx, s.vy, s.vz].map((value) => fixed(value)).join(", ")],
          ...Array.from(r.a, (value, i): [string, string] => [
            `A, row ${Math.floor(i / 3) + 1}, column ${(i % 3) + 1}`,
            number(value),
          ]),
          ["largest |A + Aᵀ|", number(r.skewness)],
          ["signed area in the plane", number(r.area)],
          ["μ", number(r.mu)],
          ["u × v", Array.from(r.axis, (value) => number(value)).join(", ")],
        ],
      })}
      more={["uz", "vz"]}
    >
      <Drawing
        width={size}
        height={size}
        label={sentence}
        tap
        handles={[handle("u", "c-rotation"), handle("v", "c-reflection")]}
      >
        <Cross plane={p} circle={false} />
        <path
          class="area c-rotation"
          d={`M${corner(0, 0)}L${corner(s.ux, s.uy)}L${corner(s.ux + s.vx, s.uy + s.vy)}L${corner(s.vx, s.vy)}Z`}
        />
        <Arrow plane={p} to={[s.ux, s.uy]} colour="c-rotation" />
        <Arrow plane={p} to={[s.vx, s.vy]} colour="c-reflection" />
        <text
          class="inside"
          x={pixel(p.x((s.ux + s.vx) / 2))}
          y={pixel(p.y((s.uy + s.vy) / 2) + 4)}
          text-anchor="middle"
        >
          {flat ? `area ${number(r.area)}` : ""}
        </text>
      </Drawing>
      <div class="side">
        <Matrix name="A" values={matrix} columns={flat ? 2 : 3} />
        <dl>
          <Fact name="largest entry of A + Aᵀ" value={number(r.skewness)} />
          <Fact name="μ, the size of A" value={number(r.mu)} />
          <Fact name="signed area of u, v" value={number(r.area)} />
          {flat ? null : (
            <Fact
              name="axis u × v"
              value={`(${Array.from(r.axis, (value) => fixed(value)).join(", ")})`}
            />
          )}
          <Fact name="plane" value={r.exists ? "exists" : "no plane: Q = I"} />
        </dl>
      </div>
    </Figure>
  );
}
