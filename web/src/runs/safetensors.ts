// The frame of a safetensors file, checked as geores/base/safetensors.cpp does, before the bytes go
// to the C++ of the page.
import { limits, list, needed, numeric, object, parseJson, Problem, text } from "./check.ts";

const sizes: Record<string, number> = {
  F64: 8,
  F32: 4,
  F16: 2,
  BF16: 2,
  I64: 8,
  I32: 4,
  I16: 2,
  I8: 1,
  U8: 1,
  BOOL: 1,
};

export interface Tensors {
  names: string[];
  parameters: number;
}

export function checkSafetensors(bytes: Uint8Array, name: string): Tensors {
  if (bytes.length < 8)
    throw new Problem(
      `${name}: not a safetensors file: ${bytes.length} bytes, the header length alone takes 8`,
    );
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = view.getBigUint64(0, true);
  if (length > BigInt(bytes.length - 8))
    throw new Problem(
      `${name}: header length ${length} exceeds the ${bytes.length - 8} bytes that follow it`,
    );
  if (length > BigInt(limits.header))
    throw new Problem(`${name}: header length ${length} exceeds the limit of ${limits.header}`);
  const end = 8 + Number(length);
  let header: string;
  try {
    header = new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(8, end));
  } catch {
    throw new Problem(`${name}: the header is not UTF-8`);
  }
  if (!header.startsWith("{")) throw new Problem(`${name}: the header must begin with {`);
  const entries = object(parseJson(header, `${name} header`), `${name} header`);
  const available = bytes.length - end;
  const extents: [number, number, string][] = [];
  let parameters = 0;
  for (const [tensor, value] of Object.entries(entries)) {
    if (tensor === "__metadata__") {
      for (const [key, item] of Object.entries(object(value, `${name} __metadata__`)))
        text(item, `${name} __metadata__ "${key}"`);
      continue;
    }
    const where = `${name} tensor "${tensor.slice(0, 80)}"`;
    const from = object(value, where);
    const dtype = needed(from, "dtype", where, text);
    const size = Object.prototype.hasOwnProperty.call(sizes, dtype) ? sizes[dtype]! : 0;
    if (!size) throw new Problem(`${where}: dtype "${dtype.slice(0, 20)}" is not known`);
    const whole = (item: number, what: string) => {
      if (!Number.isSafeInteger(item) || item < 0)
        throw new Problem(`${where}: ${what} is not a count`);
      return item;
    };
    const shape = needed(from, "shape", where, list).map((item, i) =>
      whole(numeric(item, `${where} shape[${i}]`), `shape[${i}]`),
    );
    const count = shape.reduce((product, item) => product * item, 1);
    const offsets = needed(from, "data_offsets", where, list).map((item, i) =>
      whole(numeric(item, `${where} data_offsets[${i}]`), `data_offsets[${i}]`),
    );
    const [first, last] = offsets;
    if (offsets.length !== 2 || first === undefined || last === undefined || first > last)
      throw new Problem(`${where}: data_offsets must be two increasing counts`);
    if (last > available)
      throw new Problem(`${where}: data_offsets exceed the ${available} bytes of data`);
    if (last - first !== count * size)
      throw new Problem(
        `${where}: shape needs ${count * size} bytes, data_offsets give ${last - first}`,
      );
    extents.push([first, last, tensor]);
    parameters += count;
  }
  extents.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let at = 0;
  for (const [first, last, tensor] of extents) {
    if (first !== at)
      throw new Problem(
        `${name} tensor "${tensor.slice(0, 80)}": data is not where the last tensor ends`,
      );
    at = last;
  }
  if (at !== available) throw new Problem(`${name}: ${available - at} bytes after the last tensor`);
  return { names: extents.map((extent) => extent[2]), parameters };
}
