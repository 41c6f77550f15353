import { unpack } from "./unpack.ts";

let code: Promise<WebAssembly.Module> | undefined;

// predictor.wasm, compiled once for all models.
export const predictorCode = () =>
  (code ??= unpack("wasm-predictor").then((bytes) => WebAssembly.compile(bytes)));
