// Every budget of the page in one table: sizes of the built file, and times as the best and the
// middle of several tries. On a shared machine the best is an upper bound of the page's time.
//   node test/browser/measure.mjs [TRIES]
import { readFileSync } from "node:fs";
import { budgets, checkSizes, partsOf } from "../../sizes.mjs";
import { file, launch } from "./browser.mjs";
import { dragging, gap, limits, loading } from "./times.mjs";

const tries = Number(process.argv[2] ?? 5);
console.log(checkSizes(budgets, partsOf(readFileSync(file, "utf8"))).text);

const browser = await launch();
const all = [];
for (let i = 0; i < tries; ++i)
  all.push({ ...(await loading(browser)), ...(await dragging(browser)), ...(await gap(browser)) });
await browser.close();
for (const [key, { name, limit, unit }] of Object.entries(limits)) {
  const values = all.map((one) => one[key]).sort((a, b) => a - b);
  const [best, middle] = [values[0], values[Math.floor(values.length / 2)]];
  console.log(
    `${name.padEnd(30)} best ${best.toFixed(1)}, middle ${middle.toFixed(1)} of ${limit} ${unit}${best > limit ? "  OVER" : ""}`,
  );
}
