// From numbers to pixels of a drawing.

// About `count` round values between `from` and `to`: steps of 1, 2 or 5 times a power of ten.
export function ticks(from: number, to: number, count: number): number[] {
  const rough = (to - from) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.75)!;
  const result: number[] = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + 1e-9 * step; ++i)
    result.push(Number((i * step).toPrecision(12)));
  return result;
}

export interface Scale {
  (value: number): number;
  back(pixel: number): number;
  ticks: readonly number[];
  from: number;
  to: number;
  log: boolean;
}

export function linear(from: number, to: number, start: number, end: number, count = 5): Scale {
  const scale = (value: number) => start + ((value - from) / (to - from)) * (end - start);
  return Object.assign(scale, {
    back: (position: number) => from + ((position - start) / (end - start)) * (to - from),
    ticks: ticks(from, to, count),
    from,
    to,
    log: false,
  });
}

export function log(from: number, to: number, start: number, end: number, most = 6): Scale {
  const low = Math.log10(from);
  const high = Math.log10(to);
  const scale = (value: number) =>
    start + ((Math.log10(Math.max(value, from * 1e-3)) - low) / (high - low)) * (end - start);
  const decades = Math.floor(high + 1e-9) - Math.ceil(low - 1e-9) + 1;
  const every = Math.max(1, Math.ceil(decades / most));
  const marks: number[] = [];
  for (let power = Math.ceil(low - 1e-9); power <= high + 1e-9; power += 1)
    if (power % every === 0) marks.push(10 ** power);
  if (marks.length < 3)
    for (const value of ticks(from, to, 4))
      if (value > 0 && !marks.includes(value)) marks.push(value);
  return Object.assign(scale, {
    back: (position: number) => 10 ** (low + ((position - start) / (end - start)) * (high - low)),
    ticks: marks,
    from,
    to,
    log: true,
  });
}

export const pixel = (value: number): string => String(Math.round(value * 10) / 10);

// An SVG path through the points; not-a-number leaves a gap.
export function path(xs: ArrayLike<number>, ys: ArrayLike<number>, x: Scale, y: Scale): string {
  let text = "";
  let pen = "M";
  for (let i = 0; i < xs.length; ++i) {
    const px = x(xs[i]!);
    const py = y(ys[i]!);
    if (!Number.isFinite(px) || !Number.isFinite(py)) {
      pen = "M";
      continue;
    }
    text += `${pen}${pixel(px)} ${pixel(py)}`;
    pen = "L";
  }
  return text;
}

export const circlePath = (cx: number, cy: number, r: number): string =>
  `M${pixel(cx - r)} ${pixel(cy)}a${pixel(r)} ${pixel(r)} 0 1 0 ${pixel(2 * r)} 0a${pixel(r)} ${pixel(r)} 0 1 0 ${pixel(-2 * r)} 0`;

// Pushes labels apart that would overlap: each at least `gap` below the one before, none beyond the
// ends.
export function spread(
  positions: readonly number[],
  gap: number,
  from: number,
  to: number,
): number[] {
  const order = positions.map((_, i) => i).sort((a, b) => positions[a]! - positions[b]!);
  const result = [...positions];
  let last = -Infinity;
  for (const i of order) {
    result[i] = Math.max(positions[i]!, last + gap, from);
    last = result[i]!;
  }
  let next = to;
  for (const i of [...order].reverse()) {
    result[i] = Math.min(result[i]!, next);
    next = result[i]! - gap;
  }
  return result;
}

// Where a pointer on a dial from 0 to a half turn leaves it: beyond either end the hand stays at the end it
// came from, `now` being where it was.
export const stop = (radians: number, now: number) => {
  const angle = ((radians % (2 * Math.PI)) + 2 * Math.PI) % (2 * Math.PI);
  return angle <= Math.PI ? angle : now > Math.PI / 2 ? Math.PI : 0;
};
