// Numbers as the page writes them: a point, three significant digits, powers of ten as 1.2·10⁻⁴.

const raised = "⁰¹²³⁴⁵⁶⁷⁸⁹";
// "10⁻⁴"
export const tenTo = (power: number): string =>
  `10${power < 0 ? "⁻" : ""}${String(Math.abs(power)).replace(/\d/g, (digit) => raised[Number(digit)]!)}`;

export function number(value: number, digits = 3): string {
  if (Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e5) {
    const [mantissa, power] = size.toExponential(digits > 2 ? digits - 2 : 1).split("e");
    const factor = trim(mantissa!);
    return `${sign(value)}${factor === "1" ? "" : `${factor}·`}${tenTo(Number(power))}`;
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

// Close to 1, the digits that tell it from 1: 0.9997 and not 1.
export const nearOne = (value: number): string => {
  const gap = Math.abs(1 - value);
  return gap > 5e-4 && gap < 5e-3 ? fixed(value, 4) : gap <= 5e-4 ? "1" : number(value);
};

export const percent = (value: number): string => (value < 5e-6 ? "0%" : `${number(100 * value)}%`);
export const degrees = (radians: number): string => `${fixed((radians * 180) / Math.PI, 1)}°`;
// Of an angle that never reaches a half turn: its gap where the angle alone would round to 180°.
export const halfTurn = (radians: number, gap: number): string => {
  const missing = (gap * 180) / Math.PI;
  return missing < 0.05 ? `180° − ${number(missing, 2)}°` : degrees(radians);
};
export const count = (value: number): string =>
  String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ",");
export const several = (value: number, one: string): string =>
  `${count(value)} ${one}${value === 1 ? "" : "s"}`;

// "0.02, 1.2·10⁻⁴ and 3"
export const list = (items: readonly string[]): string =>
  items.length < 2
    ? items.join("")
    : `${items.slice(0, -1).join(", ")} and ${items[items.length - 1]}`;
