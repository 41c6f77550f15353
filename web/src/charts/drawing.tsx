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
  drop?(): void; // the hand let go
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
  hover?(x: number | null): void; // a mouse over the drawing, for read-outs; null when it leaves
  class?: string;
  children: ComponentChildren;
}) {
  const svg = useRef<SVGSVGElement>(null);
  // The handle in the hand, and by how much the hand missed its centre.
  const grip = useRef<{ id: string; off: readonly [number, number] } | null>(null);
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
  const release = () => {
    const one = grip.current;
    grip.current = null;
    setHeld(null);
    handles.find((handle) => handle.id === one?.id)?.drop?.();
  };

  return (
    <div class={`drawing ${props.class ?? ""}`}>
      <svg
        ref={svg}
        viewBox={`0 0 ${props.width} ${props.height}`}
        role="img"
        aria-label={props.label}
        onClick={
          props.tap
            ? (event) => {
                const at = locate(event);
                const handle = nearest(at);
                handle?.drag(...at);
                handle?.drop?.();
              }
            : undefined
        }
        onPointerMove={
          props.hover
            ? (event) => {
                if (event.pointerType === "mouse") props.hover!(locate(event)[0]);
              }
            : undefined
        }
        onPointerLeave={props.hover ? () => props.hover!(null) : undefined}
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
              // Grips overlap where knobs are close: the nearest knob is meant.
              const at = locate(event);
              const meant = nearest(at) ?? handle;
              grip.current = { id: meant.id, off: [meant.at[0] - at[0], meant.at[1] - at[1]] };
              setHeld(meant.id);
            }}
            onPointerMove={(event) => {
              const one = grip.current;
              const meant = one && handles.find((item) => item.id === one.id);
              if (!meant) return;
              const [x, y] = locate(event);
              meant.drag(x + one.off[0], y + one.off[1]);
            }}
            onPointerUp={release}
            onPointerCancel={release}
            onClick={(event) => event.stopPropagation()}
          >
            <circle class="grip" r="26" />
            {handle.bare ? null : <circle class="knob" r="7.5" />}
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
