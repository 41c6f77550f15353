import { choice } from "../../state/fields.ts";

export const variants: Record<string, string> = {
  all: "all",
  run: "as run",
  plain: "plain gate",
  identity: "identity start",
  causal: "causal pool",
  hidden: "other hidden width",
  shape: "wider and shallower",
};

export const fields = {
  lambda: choice("λ", { all: "all", "0": "0", "0.05": "0.05", "0.1": "0.1", "0.2": "0.2" }, "all", [
    "all",
    "0",
    "0.05",
    "0.1",
    "0.2",
  ]),
  rep: choice(
    "repetition",
    { all: "all", second: "second", third: "third", twelve: "twelve seeds" },
    "all",
  ),
  start: choice("configuration", variants, "run"),
  run: choice(
    "run",
    {}, // each is called by its number
    "none",
    ["none", ...Array.from({ length: 200 }, (_, i) => String(i))],
  ),
};
