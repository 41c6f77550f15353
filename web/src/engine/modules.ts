// One WebAssembly module: starts it, calls its computations by name, starts it again after a
// refusal. No mathematics happens on this side.
import { layouts, type In, type Layout, type ModuleName, type Out } from "./layout.ts";

type Exports = Record<string, (...values: number[]) => number> & { memory: WebAssembly.Memory };
type Layouts<M extends ModuleName> = (typeof layouts)[M];

// A computation said no, in one line ("[spectral] depth must be >= 1, got 0").
export class Refusal extends Error {}

export const messageOf = (error: unknown) =>
  error instanceof Error ? error.message : String(error);

const width = (shape: Record<string, number>) =>
  Object.values(shape).reduce((sum, count) => sum + count, 0);

export class Module<M extends ModuleName> {
  private exports: Exports | undefined;

  constructor(
    readonly name: M,
    private readonly code: WebAssembly.Module,
  ) {}

  // Node.js and workers may start a module at once; a page's main thread waits for `start`.
  startNow(): this {
    this.use(new WebAssembly.Instance(this.code, this.imports()));
    return this;
  }

  async start(): Promise<this> {
    this.use(await WebAssembly.instantiate(this.code, this.imports()));
    return this;
  }

  private use(instance: WebAssembly.Instance) {
    this.exports = instance.exports as unknown as Exports;
    this.exports["_initialize"]?.();
    for (const [name, layout] of Object.entries(layouts[this.name]) as [string, Layout][]) {
      const expected = width(layout.in) + width(layout.out);
      const size = this.function(`${name}_size`)();
      if (size !== expected)
        throw new Error(`${this.name}.wasm: ${name} has ${size} fields, expected ${expected}`);
    }
  }

  private imports(): WebAssembly.Imports {
    const refuse = (address: number, length: number) => {
      const bytes = new Uint8Array(this.memory().buffer, address, length).slice();
      throw new Refusal(new TextDecoder().decode(bytes));
    };
    const wasi: Record<string, () => number> = {};
    for (const { module, name } of WebAssembly.Module.imports(this.code))
      if (module === "wasi_snapshot_preview1") wasi[name] = () => 0;
    if (wasi["proc_exit"])
      wasi["proc_exit"] = () => {
        throw new Refusal(`[${this.name}] stopped`);
      };
    return { page: { refuse }, wasi_snapshot_preview1: wasi };
  }

  private running(): Exports {
    if (!this.exports) throw new Refusal(`[${this.name}] is starting`);
    return this.exports;
  }

  memory(): WebAssembly.Memory {
    return this.running().memory;
  }

  function(name: string): (...values: number[]) => number {
    const found = this.running()[name];
    if (!found) throw new Error(`${this.name}.wasm has no ${name}`);
    return found;
  }

  // Runs `work`; an instance that refused or trapped is never used again.
  guard<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      this.exports = undefined;
      void this.start();
      if (error instanceof Refusal) throw error;
      throw new Refusal(`[${this.name}] ${messageOf(error)}`);
    }
  }

  call<N extends keyof Layouts<M> & string>(
    name: N,
    inputs: In<Layouts<M>[N]>,
  ): Out<Layouts<M>[N]> {
    this.running();
    return this.guard(() => {
      const layout = layouts[this.name][name as never] as Layout;
      const address = this.function(`${name}_data`)();
      const size = width(layout.in) + width(layout.out);
      let data = new Float64Array(this.memory().buffer, address, size);
      let at = 0;
      for (const [field, count] of Object.entries(layout.in)) {
        const value = (inputs as Record<string, number | ArrayLike<number>>)[field]!;
        if (typeof value === "number") data[at] = value;
        else data.set(value, at);
        at += count;
      }
      this.function(`${name}_compute`)();
      data = new Float64Array(this.memory().buffer, address, size);
      const result: Record<string, number | Float64Array> = {};
      for (const [field, count] of Object.entries(layout.out)) {
        result[field] = count === 1 ? data[at]! : data.slice(at, at + count);
        at += count;
      }
      return result as Out<Layouts<M>[N]>;
    });
  }

  // A plain array of doubles that the module keeps at the address that `name` returns.
  doubles(name: string, count: number): Float64Array {
    return new Float64Array(this.memory().buffer, this.function(name)(), count);
  }
}
