// The page's side of worker.ts.
import type { Parsed } from "../runs/files.ts";
import { type In, layouts, type Out } from "./layout.ts";
import { Refusal } from "./modules.ts";
import { text as tables } from "./tables.ts";
import { unpack } from "./unpack.ts";

type Spectrum = typeof layouts.spectrum;
export type Question = { id: number } & (
  | { kind: "parse"; name: string; bytes: Uint8Array }
  | { kind: "start"; module: WebAssembly.Module }
  | { kind: "call"; name: keyof Spectrum; inputs: unknown }
);
export type Answer = { id: number; value?: unknown; refusal?: string };

type Pending = { resolve(value: unknown): void; reject(error: Error): void };
type Without<T> = T extends unknown ? Omit<T, "id"> : never;

// The worker runs the page's own script, which sees that there is no document, after the tables.
const script = typeof document === "undefined" ? "" : (document.currentScript?.textContent ?? "");
let source: string | undefined;

export class Helper {
  private worker: Worker | undefined;
  private readonly pending = new Map<number, Pending>();
  private next = 1;

  private running(): Worker {
    source ??= URL.createObjectURL(
      new Blob([`carried=${tables};`, script], { type: "text/javascript" }),
    );
    if (!this.worker) {
      this.worker = new Worker(source);
      this.worker.addEventListener("message", (event: MessageEvent<Answer>) => {
        const { id, value, refusal } = event.data;
        const waiting = this.pending.get(id);
        this.pending.delete(id);
        if (refusal === undefined) waiting?.resolve(value);
        else waiting?.reject(new Refusal(refusal));
      });
      this.worker.addEventListener("error", (event) => {
        event.preventDefault();
        this.stop(event.message || "the worker stopped");
      });
    }
    return this.worker;
  }

  ask(question: Without<Question>): Promise<unknown> {
    const worker = this.running();
    const id = this.next++;
    return new Promise((resolve, reject) => {
      this.pending.set(id, { resolve, reject });
      worker.postMessage({ ...question, id });
    });
  }

  get busy(): boolean {
    return this.pending.size > 0;
  }

  // Ends a computation that takes too long; the next question starts a new worker.
  stop(reason: string) {
    this.worker?.terminate();
    this.worker = undefined;
    for (const { reject } of this.pending.values()) reject(new Refusal(reason));
    this.pending.clear();
  }
}

const reader = new Helper();

export const parseInWorker = (name: string, bytes: Uint8Array): Promise<Parsed> =>
  reader.ask({ kind: "parse", name, bytes }) as Promise<Parsed>;

// Calls into spectrum.wasm; the build has its own, which answers at once.
export type SpectrumCall = <N extends keyof Spectrum>(
  name: N,
  inputs: In<Spectrum[N]>,
) => Promise<Out<Spectrum[N]>>;

let code: Promise<WebAssembly.Module> | undefined;

export class SpectrumHelper {
  private helper = new Helper();
  private started = false;

  call: SpectrumCall = async (name, inputs) => {
    if (!this.started) {
      code ??= unpack("wasm-spectrum").then((bytes) => WebAssembly.compile(bytes));
      const module = await code;
      this.started = true;
      await this.helper.ask({ kind: "start", module });
    }
    return (await this.helper.ask({ kind: "call", name, inputs })) as never;
  };

  // Cancels a running piece; its request is rejected.
  replace() {
    this.helper.stop("replaced");
    this.started = false;
  }

  get busy(): boolean {
    return this.helper.busy;
  }
}
