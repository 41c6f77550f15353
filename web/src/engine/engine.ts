// The modules that run in the page's own thread. The client fills them from the page, the build
// from files; widgets only ever call `compute`.
import { type In, layouts, type ModuleName, type Out } from "./layout.ts";
import { Module } from "./modules.ts";

const modules = new Map<ModuleName, Module<ModuleName>>();

export const install = (module: Module<ModuleName>) => modules.set(module.name, module);

export function loaded<M extends ModuleName>(name: M): Module<M> {
  const module = modules.get(name);
  if (!module) throw new Error(`module ${name} is not loaded`);
  return module as unknown as Module<M>;
}

export const isLoaded = (name: ModuleName) => modules.has(name);

export function compute<M extends ModuleName, N extends keyof (typeof layouts)[M] & string>(
  module: M,
  name: N,
  inputs: In<(typeof layouts)[M][N]>,
): Out<(typeof layouts)[M][N]> {
  return loaded(module).call(name, inputs);
}
