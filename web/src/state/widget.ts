// A widget's state: starts as the first state (what the HTML shows), then follows the link.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { compute } from "../engine/engine.ts";
import type { In, layouts, Out } from "../engine/layout.ts";
import { Refusal } from "../engine/modules.ts";
import { type Fields, firstState, fromQuery, type State, toQuery } from "./fields.ts";
import { follow, setLink } from "./link.ts";

export interface Widget<F extends Fields> {
  id: string;
  fields: F;
  state: State<F>;
  notes: readonly string[];
  query: string;
  set(change: Partial<State<F>>): void;
  reset(): void;
  resets: number; // how often: animations stop then
}

export function useWidget<F extends Fields>(id: string, fields: F): Widget<F> {
  const [state, setState] = useState(() => firstState(fields));
  const [notes, setNotes] = useState<readonly string[]>([]);
  const [resets, setResets] = useState(0);
  const latest = useRef(state);
  latest.current = state;

  useEffect(
    () =>
      follow((link) => {
        if (link.id !== id) return;
        const read = fromQuery(fields, link.query);
        setState(read.state);
        setNotes(read.notes);
      }),
    [],
  );

  const set = useCallback((change: Partial<State<F>>) => {
    const next = { ...latest.current, ...change };
    latest.current = next;
    setState(next);
    setNotes([]);
    setLink({ id, query: toQuery(fields, next) });
  }, []);
  const reset = useCallback(() => {
    setState(firstState(fields));
    setNotes([]);
    setResets((count) => count + 1);
    setLink({ id, query: "" });
  }, []);
  return { id, fields, state, notes, query: toQuery(fields, state), set, reset, resets };
}

export interface Computed<T> {
  value: T;
  refusal: string; // "" when `value` belongs to the present state, else why it is the last good one
}

// Computes when something changed; a refusal leaves the last good value standing.
export function useComputed<T>(work: () => T, inputs: readonly unknown[]): Computed<T> {
  const last = useRef<{ value: T } | null>(null);
  return useMemo(() => {
    try {
      last.current = { value: work() };
      return { value: last.current.value, refusal: "" };
    } catch (error) {
      if (!(error instanceof Refusal) || !last.current) throw error;
      return { value: last.current.value, refusal: error.message };
    }
  }, inputs as unknown[]);
}

// The same for a computation of the small operators, which depends on nothing but its inputs.
export const useOperator = <N extends keyof typeof layouts.operators>(
  name: N,
  inputs: In<(typeof layouts.operators)[N]>,
): Computed<Out<(typeof layouts.operators)[N]>> =>
  useComputed(() => compute("operators", name, inputs), Object.values(inputs));

// The value as it was when it last rested for `ms`.
export function useRested<T>(value: T, ms: number): T {
  const [rested, setRested] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setRested(value), ms);
    return () => clearTimeout(timer);
  }, [value]);
  return rested;
}
