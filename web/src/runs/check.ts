// Reading other people's files: every value is checked, and an error names file, position and value.

export class Problem extends Error {}

export const limits = {
  file: 64e6, // bytes
  header: 1e6, // bytes of a safetensors header
  lines: 200_000,
};

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

export function shown(value: unknown): string {
  let text: string;
  try {
    text = JSON.stringify(value) ?? String(value);
  } catch {
    text = String(value);
  }
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

export function parseJson(text: string, where: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    throw new Problem(`${where}: not JSON (${shown(text.slice(0, 40))})`);
  }
}

export function object(value: Json | undefined, where: string): JsonObject {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new Problem(`${where} is not an object: ${shown(value)}`);
  return value;
}

export function list(value: Json | undefined, where: string): Json[] {
  if (!Array.isArray(value)) throw new Problem(`${where} is not a list: ${shown(value)}`);
  return value;
}

export function text(value: Json | undefined, where: string): string {
  if (typeof value !== "string") throw new Problem(`${where} is not a text: ${shown(value)}`);
  return value;
}

// null is a number that was not finite: it is drawn as a gap.
export function numeric(value: Json | undefined, where: string): number {
  if (value === null) return NaN;
  if (typeof value !== "number") throw new Problem(`${where} is not a number`);
  return value;
}

export const numbers = (value: Json | undefined, where: string): number[] =>
  list(value, where).map((item, i) => numeric(item, `${where}[${i}]`));

// An entry of an object, or undefined where it is absent or null.
export function optional<T>(
  from: JsonObject,
  key: string,
  where: string,
  read: (value: Json, where: string) => T,
): T | undefined {
  const value = Object.prototype.hasOwnProperty.call(from, key) ? from[key] : undefined;
  return value === undefined || value === null ? undefined : read(value, `${where} "${key}"`);
}

export function needed<T>(
  from: JsonObject,
  key: string,
  where: string,
  read: (value: Json, where: string) => T,
): T {
  const value = Object.prototype.hasOwnProperty.call(from, key) ? from[key] : undefined;
  if (value === undefined) throw new Problem(`${where}: "${key}" is missing`);
  return read(value, `${where}: "${key}"`);
}
