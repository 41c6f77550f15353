// Native controls for the fields of a widget.
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import {
  type Choice,
  type Fields,
  fromSlider,
  type Range,
  type Several,
  snap,
  type State,
  toSlider,
} from "../state/fields.ts";
import type { Widget } from "../state/widget.ts";
import { number } from "./format.ts";

type Key<F extends Fields, Kind> = {
  [K in keyof F]: F[K] extends Kind ? K : never;
}[keyof F] &
  string;

const change = <F extends Fields>(key: string, value: unknown) =>
  ({ [key]: value }) as Partial<State<F>>;

// The value's position on a slider's native input: its own numbers when linear, 0…1000 else.
export function sliderInput(field: Range, value: number, set: (value: number) => void) {
  const linear = field.scale === "linear";
  return {
    type: "range",
    min: linear ? field.from : 0,
    max: linear ? field.to : 1000,
    step: linear ? field.step : 1,
    value: linear ? value : Math.round(1000 * toSlider(field, value)),
    "aria-valuetext": `${number(value)}${field.unit ? ` ${field.unit}` : ""}`,
    onInput: (event: Event) => {
      const at = (event.target as HTMLInputElement).valueAsNumber;
      set(linear ? snap(field, at) : fromSlider(field, at / 1000));
    },
    onKeyDown: (event: KeyboardEvent) => {
      if (linear || (event.key !== "PageUp" && event.key !== "PageDown")) return;
      event.preventDefault();
      const factor = event.key === "PageUp" ? 10 : 0.1;
      set(snap(field, value === 0 ? field.step : value * factor, 0));
    },
  } as const;
}

// As an input of numbers shows it: 1e8 and not nine digits.
const typed = (value: number): string =>
  Math.abs(value) >= 1e5
    ? value.toExponential(2).replace(/\.?0+e\+?/, "e")
    : String(Number(value.toPrecision(6)));

export function Slider<F extends Fields>(props: {
  widget: Widget<F>;
  name: Key<F, Range>;
  disabled?: boolean;
}) {
  const { widget, name } = props;
  const field = widget.fields[name] as Range;
  const value = widget.state[name] as number;
  const set = (next: number) => widget.set(change<F>(name, next));
  const id = `${widget.id}-${name}`;
  // A drag moves one control: the others stay as they are.
  return useMemo(
    () => (
      <div class="control">
        <label for={id}>
          {field.label}
          {field.unit ? <span class="unit"> ({field.unit})</span> : null}
        </label>
        <input id={id} name={name} disabled={props.disabled} {...sliderInput(field, value, set)} />
        <input
          type="number"
          class="number"
          aria-label={`${field.label}, as a number`}
          min={field.from}
          max={field.to}
          step="any"
          disabled={props.disabled}
          value={typed(value)}
          onChange={(event) => {
            const input = event.target as HTMLInputElement;
            const given = input.valueAsNumber;
            const kept = Math.min(field.to, Math.max(field.from, given));
            if (Number.isFinite(given)) set(kept);
            if (kept !== given) input.value = typed(Number.isFinite(kept) ? kept : value);
          }}
        />
      </div>
    ),
    [field, value, props.disabled],
  );
}

export const Choose = <F extends Fields>(props: ChooseProps<F>) =>
  useMemo(() => chosen(props), [props.widget.fields[props.name], props.widget.state[props.name]]);

interface ChooseProps<F extends Fields> {
  widget: Widget<F>;
  name: Key<F, Choice>;
  as?: "select" | "radio";
}

function chosen<F extends Fields>(props: ChooseProps<F>) {
  const { widget, name } = props;
  const field = widget.fields[name] as unknown as Choice;
  const value = widget.state[name] as string;
  const set = (next: string) => widget.set(change<F>(name, next));
  const id = `${widget.id}-${name}`;
  if ((props.as ?? (field.values.length > 4 ? "select" : "radio")) === "select")
    return (
      <div class="control">
        <label for={id}>{field.label}</label>
        <select
          id={id}
          name={name}
          value={value}
          onChange={(event) => set((event.target as HTMLSelectElement).value)}
        >
          {field.values.map((item) => (
            <option value={item} selected={item === value}>
              {field.names[item] ?? item}
            </option>
          ))}
        </select>
      </div>
    );
  return (
    <fieldset class="control choice">
      <legend>{field.label}</legend>
      <div class="segments">
        {field.values.map((item) => (
          <label>
            <input
              type="radio"
              name={`${widget.id}-${name}`}
              value={item}
              checked={item === value}
              onChange={() => set(item)}
            />
            <span>{field.names[item] ?? item}</span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}

export function Checks<F extends Fields>(props: {
  widget: Widget<F>;
  name: Key<F, Several>;
  only?: readonly string[];
  mark?: (item: string) => ComponentChildren;
}) {
  const { widget, name, only } = props;
  const field = widget.fields[name] as unknown as Several;
  const value = widget.state[name] as readonly string[];
  return (
    <fieldset class="control checks">
      <legend>{field.label}</legend>
      {field.values
        .filter((item) => !only || only.includes(item))
        .map((item) => (
          <label>
            <input
              type="checkbox"
              name={`${widget.id}-${item}`}
              checked={value.includes(item)}
              onChange={(event) => {
                const on = (event.target as HTMLInputElement).checked;
                const next = field.values.filter((other) =>
                  other === item ? on : value.includes(other),
                );
                widget.set(change<F>(name, next));
              }}
            />
            {props.mark?.(item)}
            {field.names[item] ?? item}
          </label>
        ))}
    </fieldset>
  );
}

// A number in a sentence that can be dragged: a range input under its own text.
export function Scrub<F extends Fields>(props: {
  widget: Widget<F>;
  name: Key<F, Range>;
  text?: string;
}) {
  const { widget, name } = props;
  const field = widget.fields[name] as Range;
  const value = widget.state[name] as number;
  const [from, setFrom] = useState<{ x: number; at: number } | null>(null);
  const set = (next: number) => widget.set(change<F>(name, next));
  return (
    <span
      class="scrub"
      onPointerDown={(event) => {
        (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
        setFrom({ x: event.clientX, at: toSlider(field, value) });
      }}
      onPointerMove={(event) => {
        if (from) set(fromSlider(field, from.at + (event.clientX - from.x) / 300));
      }}
      onPointerUp={() => setFrom(null)}
      onPointerCancel={() => setFrom(null)}
    >
      <input
        class="hidden-input"
        aria-label={`${field.label}, in the sentence`}
        {...sliderInput(field, value, set)}
      />
      <span class="scrub-value" aria-hidden="true">
        {props.text ?? number(value)}
      </span>
    </span>
  );
}

export const Button = (props: {
  onClick: () => void;
  children: ComponentChildren;
  pressed?: boolean;
  disabled?: boolean;
  main?: boolean; // the one action of its widget
}) => (
  <button
    type="button"
    class={props.main ? "primary" : undefined}
    aria-pressed={props.pressed}
    disabled={props.disabled}
    onClick={props.onClick}
  >
    {props.children}
  </button>
);
