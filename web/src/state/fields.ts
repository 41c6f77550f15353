// A widget's inputs: ranges and choices with their defaults, and their form in a link.

export interface Range {
  kind: "range";
  from: number;
  to: number;
  first: number;
  step: number;
  label: string;
  scale: "linear" | "log" | "mixed"; // mixed: linear up to 4, logarithmic beyond
  unit?: string;
}
export interface Choice {
  kind: "choice";
  values: readonly string[];
  first: string;
  label: string;
  names: Record<string, string>;
}
export interface Several {
  kind: "several";
  values: readonly string[];
  first: readonly string[];
  label: string;
  names: Record<string, string>;
}
export type Field = Range | Choice | Several;
export type Fields = Record<string, Field>;
export type Value<F> = F extends Range ? number : F extends Choice ? string : readonly string[];
export type State<F extends Fields> = { [K in keyof F]: Value<F[K]> };

export const range = (
  label: string,
  from: number,
  to: number,
  first: number,
  step: number,
  more: { scale?: Range["scale"]; unit?: string } = {},
): Range => ({ kind: "range", label, from, to, first, step, scale: "linear", ...more });

export const choice = (
  label: string,
  names: Record<string, string>,
  first: string,
  order: readonly string[] = Object.keys(names),
): Choice => ({ kind: "choice", label, values: order, names, first });

export const several = (
  label: string,
  names: Record<string, string>,
  first: readonly string[],
): Several => ({ kind: "several", label, values: Object.keys(names), names, first });

export const firstState = <F extends Fields>(fields: F): State<F> =>
  Object.fromEntries(
    Object.entries(fields).map(([key, field]) => [key, field.first]),
  ) as unknown as State<F>;

const plain = (value: number) => String(Number(value.toPrecision(12)));

const written = (value: number | string | readonly string[]): string =>
  typeof value === "number" ? plain(value) : typeof value === "string" ? value : value.join("+");

// "gamma=0.25&k=120": only the differences from the first state.
export function toQuery<F extends Fields>(fields: F, state: State<F>): string {
  return Object.entries(fields)
    .filter(([key, field]) => written(state[key]!) !== written(field.first))
    .map(([key]) => `${key}=${encodeURIComponent(written(state[key]!)).replace(/%2B/g, "+")}`)
    .join("&");
}

export interface Read<F extends Fields> {
  state: State<F>;
  notes: string[]; // one for each value that had to be changed or ignored
}

const short = (text: string) => (text.length > 40 ? `${text.slice(0, 40)}…` : text);

export function fromQuery<F extends Fields>(fields: F, query: string): Read<F> {
  const state: Record<string, unknown> = firstState(fields);
  const notes: string[] = [];
  for (const part of query.slice(0, 4000).split("&")) {
    if (part === "") continue;
    const cut = part.indexOf("=");
    const key = cut < 0 ? part : part.slice(0, cut);
    if (key === "theme") continue;
    let text: string;
    try {
      text = decodeURIComponent(cut < 0 ? "" : part.slice(cut + 1));
    } catch {
      notes.push(`${short(key)}: not readable, ignored`);
      continue;
    }
    const field = Object.prototype.hasOwnProperty.call(fields, key) ? fields[key] : undefined;
    if (!field) {
      notes.push(`${short(key)} is not an input here, ignored`);
    } else if (field.kind === "range") {
      const value = text.trim() === "" ? NaN : Number(text);
      if (!Number.isFinite(value)) notes.push(`${key}: "${short(text)}" is not a number, ignored`);
      else {
        const kept = Math.min(field.to, Math.max(field.from, value));
        if (kept !== value)
          notes.push(`${key}: ${short(text)} is out of range, ${plain(kept)} taken`);
        state[key] = kept;
      }
    } else if (field.kind === "choice") {
      if (field.values.includes(text)) state[key] = text;
      else notes.push(`${key}: "${short(text)}" is not offered, ignored`);
    } else {
      const items = text === "" ? [] : text.split(/[+ ]/);
      const known = field.values.filter((value) => items.includes(value));
      const unknown = items.find((item) => !field.values.includes(item));
      if (unknown !== undefined) notes.push(`${key}: "${short(unknown)}" is not offered, ignored`);
      state[key] = known;
    }
  }
  return { state: state as State<F>, notes };
}

// A value's position on its slider, 0…1, and back.
const bend = 4; // a mixed scale is linear up to here
const bendAt = 0.4; // and this part of the slider belongs to it

export function toSlider(field: Range, value: number): number {
  const { from, to, scale } = field;
  if (scale === "linear") return (value - from) / (to - from);
  if (scale === "log") return Math.log(value / from) / Math.log(to / from);
  if (value <= bend) return (bendAt * (value - from)) / (bend - from);
  return bendAt + ((1 - bendAt) * Math.log(value / bend)) / Math.log(to / bend);
}

export function fromSlider(field: Range, part: number): number {
  const { from, to, scale, step } = field;
  const at = Math.min(1, Math.max(0, part));
  let value: number;
  if (scale === "linear") value = from + at * (to - from);
  else if (scale === "log") value = from * (to / from) ** at;
  else if (at <= bendAt) value = from + (at / bendAt) * (bend - from);
  else value = bend * (to / bend) ** ((at - bendAt) / (1 - bendAt));
  return snap(field, value, scale === "linear" || (scale === "mixed" && at <= bendAt) ? step : 0);
}

export function snap(field: Range, value: number, step = field.step): number {
  const kept = Math.min(field.to, Math.max(field.from, value));
  if (step > 0) return Number((Math.round(kept / step) * step).toFixed(10));
  return Number(kept.toPrecision(3));
}
