import { choice, range } from "../../state/fields.ts";

const axes = Object.fromEntries(Array.from({ length: 16 }, (_, i) => [String(i), String(i + 1)]));
const order = Array.from({ length: 16 }, (_, i) => String(i));

export const seen = 2.5; // the training data turns by at most this much a step

export const fields = {
  x: range("start, first coordinate", -1, 1, 0.8, 0.01),
  y: range("start, second coordinate", -1, 1, 0.3, 0.01),
  theta: range("angle a step", 0.1, 3.14, 0.9, 0.01),
  t: range("states shown", 1, 32, 8, 1),
  feed: choice("after that", { no: "show the truth", yes: "feed predictions back" }, "no"),
  model: choice("gates of", { edelta: "EΔ", gpt: "GPT", own: "your run" }, "edelta"),
  i: choice("first axis", axes, "0", order),
  j: choice("second axis", axes, "1", order),
};
