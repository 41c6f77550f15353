// The block of tables that the page carries (web/tables.mjs); the worker gets its text before the script.
declare global {
  var carried: Record<string, unknown> | undefined;
}

const block = typeof document === "undefined" ? null : document.getElementById("tables");
export const text = block?.textContent ?? "{}";
export const tables: Record<string, unknown> = globalThis.carried ?? JSON.parse(text);
