import { choice, range } from "../../state/fields.ts";

const axes = Object.fromEntries(Array.from({ length: 16 }, (_, i) => [String(i), String(i + 1)]));
const order = Array.from({ length: 16 }, (_, i) => String(i));

export const seen = 2.5; // the training data turns by at most this much a step, in radians

export const fields = {
  t: range("states shown", 1, 31, 5, 1),
  answer: choice("the answer", { hidden: "hidden", shown: "shown" }, "hidden"),
  gx: range("your guess, first coordinate", -1.2, 1.2, 0, 0.01),
  gy: range("your guess, second coordinate", -1.2, 1.2, 0, 0.01),
  x: range("start, first coordinate", -1, 1, 0.8, 0.01),
  y: range("start, second coordinate", -1, 1, 0.3, 0.01),
  theta: range("angle a step", 0.1, 3.14, 1.1, 0.01, { unit: "radians" }),
  feed: choice(
    "after that",
    { no: "the model sees the truth", yes: "it sees its own predictions" },
    "no",
  ),
  model: choice("gates of", { edelta: "EΔ", gpt: "GPT", own: "your run" }, "edelta"),
  i: choice("first axis", axes, "0", order),
  j: choice("second axis", axes, "1", order),
};
