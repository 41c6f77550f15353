// An SVG with dragged points. A point is a circle over visually hidden range inputs: keys, screen
// readers and touch readers use the inputs, a hand the circle.
import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { pixel } from "./scales.ts";

export interface HandleInput {
  label: string;
  value: number;
  from: number;
  to: number;
  step?: number;
  text?: string;
  set(value: number): void;
}

export interface Handle {
  id: string;
  at: readonly [number, number];
  colour: string; // a class: c-rotation …
  inputs: readonly HandleInput[];
  drag(x: number, y: number): void;
  label?: string;
  bare?: boolean; // draws no circle of its own
}

function input(item: HandleInput, focus: (on: boolean) => void) {
  const step = item.step ?? (item.to - item.from) / 100;
  return (
    <input
      type="range"
      class="hidden-input"
      aria-label={item.label}
      aria-valuetext={item.text}
      min={item.from}
      max={item.to}
      step={step}
      value={item.value}
      onFocus={() => focus(true)}
      onBlur={() => focus(false)}
      onInput={(event) => item.set((event.target as HTMLInputElement).valueAsNumber)}
      onKeyDown={(event) => {
        const way = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
        if (!way || !event.shiftKey) return;
        event.preventDefault();
        item.set(Math.min(item.to, Math.max(item.from, item.value + way * 10 * step)));
      }}
    />
  );
}

export function Drawing(props: {
  width: number;
  height: number;
  label: string;
  handles?: readonly Handle[];
  tap?: boolean; // a tap on the drawing moves the nearest handle there
  follow?: boolean; // so does a pointer that hovers (for read-outs)
  class?: string;
  children: ComponentChildren;
}) {
  const svg = useRef<SVGSVGElement>(null);
  const [held, setHeld] = useState<string | null>(null);
  const [focused, setFocused] = useState<string | null>(null);
  const handles = props.handles ?? [];

  const locate = (event: { clientX: number; clientY: number }): [number, number] => {
    const matrix = svg.current?.getScreenCTM();
    if (!matrix) return [0, 0];
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    return [point.x, point.y];
  };
  const nearest = ([x, y]: [number, number]): Handle | undefined => {
    let best: Handle | undefined;
    let least = Infinity;
    for (const handle of handles) {
      const distance = (handle.at[0] - x) ** 2 + (handle.at[1] - y) ** 2;
      if (distance < least) [best, least] = [handle, distance];
    }
    return best;
  };
  const moveNearest = (event: MouseEvent) => {
    const at = locate(event);
    nearest(at)?.drag(...at);
  };

  return (
    <div class={`drawing ${props.class ?? ""}`}>
      <svg
        ref={svg}
        viewBox={`0 0 ${props.width} ${props.height}`}
        role="img"
        aria-label={props.label}
        onClick={props.tap ? moveNearest : undefined}
        onPointerMove={
          props.follow
            ? (event) => {
                if (event.pointerType === "mouse") moveNearest(event);
              }
            : undefined
        }
      >
        {props.children}
        {handles.map((handle) => (
          <g
            class={`handle ${handle.colour}${focused === handle.id ? " focused" : ""}${held === handle.id ? " held" : ""}`}
            data-handle={handle.id}
            transform={`translate(${pixel(handle.at[0])} ${pixel(handle.at[1])})`}
            onPointerDown={(event) => {
              event.preventDefault();
              (event.currentTarget as SVGElement).setPointerCapture(event.pointerId);
              setHeld(handle.id);
            }}
            onPointerMove={(event) => {
              if (held === handle.id) handle.drag(...locate(event));
            }}
            onPointerUp={() => setHeld(null)}
            onPointerCancel={() => setHeld(null)}
            onClick={(event) => event.stopPropagation()}
          >
            <circle class="grip" r="26" />
            {handle.bare ? null : <circle class="knob" r="7" />}
            <circle class="ring" r="12" />
            {handle.label ? (
              <text class="handle-label" x="11" y="-9">
                {handle.label}
              </text>
            ) : null}
          </g>
        ))}
      </svg>
      {handles.map((handle) =>
        handle.inputs.map((item) => input(item, (on) => setFocused(on ? handle.id : null))),
      )}
    </div>
  );
}
