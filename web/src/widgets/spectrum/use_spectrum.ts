// Solves a request in the worker; every change cancels the current one.
import { useEffect, useRef, useState } from "preact/hooks";
import { messageOf, Refusal } from "../../engine/modules.ts";
import { SpectrumHelper } from "../../engine/worker_client.ts";
import { type Request, solve, type Spectrum } from "./solve.ts";

const patience = 1000; // ms that a piece of an older request may still take

export function useSpectrum(
  request: Request | null,
  first: Spectrum | null,
  ready: boolean, // false: the first result already answers the request
): { value: Spectrum | null; refusal: string; working: boolean } {
  const [value, setValue] = useState(first);
  const [refusal, setRefusal] = useState("");
  const [working, setWorking] = useState(false);
  const helper = useRef<SpectrumHelper | null>(null);
  const generation = useRef(0);
  useEffect(() => {
    if (!request || !ready) {
      ++generation.current;
      setWorking(false);
      setRefusal("");
      if (!ready) setValue(first);
      return;
    }
    const mine = ++generation.current;
    helper.current ??= new SpectrumHelper();
    const worker = helper.current;
    const timer = worker.busy ? setTimeout(() => worker.replace(), patience) : undefined;
    const run = async () => {
      try {
        for await (const part of solve(worker.call, request)) {
          clearTimeout(timer);
          if (mine !== generation.current) return;
          setValue(part);
          setRefusal("");
        }
      } catch (error) {
        clearTimeout(timer);
        if (mine !== generation.current) return;
        if (error instanceof Refusal && error.message === "replaced") return void run();
        setRefusal(messageOf(error));
      }
      if (mine === generation.current) setWorking(false);
    };
    setWorking(true);
    // A slider moves on: wait until it rests for a moment.
    const rest = setTimeout(() => void run(), 40);
    return () => clearTimeout(rest);
  }, [JSON.stringify(request), ready]);
  return { value, refusal, working };
}
