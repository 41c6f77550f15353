// Numbers as the page writes them: a point, three significant digits, exponents as 1.2e-4.

export function number(value: number, digits = 3): string {
  if (Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e5) {
    const text = size.toExponential(digits > 2 ? digits - 2 : 1);
    return sign(value) + text.replace(/\.0+e/, "e").replace("e+", "e");
  }
  const text = size >= 10 ** digits ? size.toFixed(0) : size.toPrecision(digits);
  return sign(value) + trim(text);
}

const sign = (value: number) => (value < 0 ? "−" : "");
const trim = (text: string) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);

// A computed value that is zero but for rounding reads as 0.
export const clean = (value: number, digits = 3): string =>
  Math.abs(value) < 1e-12 ? "0" : number(value, digits);

// With fixed digits, for matrices: columns line up.
export const fixed = (value: number, digits = 2): string =>
  Number.isNaN(value)
    ? "–"
    : (Object.is(value, -0) || Number(value.toFixed(digits)) === 0
        ? (0).toFixed(digits)
        : value.toFixed(digits)
      ).replace("-", "−");

export const percent = (value: number): string => `${number(100 * value)} %`;
export const degrees = (radians: number): string => `${fixed((radians * 180) / Math.PI, 1)}°`;
export const count = (value: number): string =>
  String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ",");

// "0.02, 1.2e-4 and 3"
export const list = (items: readonly string[]): string =>
  items.length < 2
    ? items.join("")
    : `${items.slice(0, -1).join(", ")} and ${items[items.length - 1]}`;
