// The page's first picture: the letter F after layer upon layer of five operators.
import { LetterF, plane } from "../../charts/axes.tsx";
import { Button, Choose } from "../../controls/controls.tsx";
import { Figure } from "../../controls/figure.tsx";
import { list, number } from "../../controls/format.ts";
import { useOperator, useWidget } from "../../state/widget.ts";
import { colours, fields, rows } from "./state.ts";

const size = 100;
const p = plane(size, 0.72);
const names = Object.keys(rows);
const strength = 0.12;

// The letter's fate under the map.
function fate([a, b, c, d]: ArrayLike<number> & Iterable<number>): string {
  const square = (a! * a! + b! * b! + c! * c! + d! * d!) / 2;
  const area = Math.abs(a! * d! - b! * c!);
  const skew = Math.max(
    Math.abs(a! * a! + c! * c! - 1),
    Math.abs(b! * b! + d! * d! - 1),
    Math.abs(a! * b! + c! * d!),
  );
  return skew < 0.1 ? "kept" : square < 0.0025 ? "gone" : area < 0.05 * square ? "flat" : "bent";
}

const told: Record<string, (rows: string, one: boolean) => string> = {
  kept: (names, one) => `${names} ${one ? "keeps" : "keep"} the F`,
  bent: (names, one) => `${names} ${one ? "bends" : "bend"} it`,
  flat: (names, one) => `${names} ${one ? "flattens" : "flatten"} it`,
  gone: (names, one) => `${names} ${one ? "shrinks" : "shrink"} it to a point`,
};

export function Film() {
  const widget = useWidget("film", fields);
  const s = widget.state;
  const { value: film, refusal } = useOperator("film", {
    gamma: s.gamma,
    branch: s.branch === "on" ? strength : 0,
    initial: s.init === "initial" ? 1 : 0,
    seed: s.seed,
  });
  const matrix = (row: number, frame: number) =>
    film.frames.subarray(4 * (8 * row + frame), 4 * (8 * row + frame) + 4);
  const fates = names.map((_, row) => fate(matrix(row, 7)));
  const groups = Object.keys(told)
    .map((kind) => ({ kind, which: names.filter((_, row) => fates[row] === kind) }))
    .filter(({ which }) => which.length > 0);
  const short = (name: string) => `the ${rows[name]!.replace(/ \(.*/, "")}`;
  const sentence = groups
    .map(({ kind, which }) => told[kind]!(list(which.map(short)), which.length === 1))
    .join("; ");
  const layers = s.init === "initial" ? "layers as they are initialised" : "random layers";
  return (
    <Figure
      widget={widget}
      caption={`After 48 ${layers}${s.branch === "on" ? " with a branch" : ""}: ${sentence}.`}
      sentence={sentence}
      refusal={refusal}
      buttons={
        <Button
          main
          pressed={s.branch === "on"}
          onClick={() => widget.set({ branch: s.branch === "on" ? "off" : "on" })}
        >
          {s.branch === "on" ? "Switch the branch off" : "Switch the branch on"}
        </Button>
      }
      table={() => ({
        caption: "The product of the operators in the plane of two streams, row by row",
        head: ["operator", ...Array.from(film.layers, (layer) => `layer ${layer}`)],
        rows: names.map((name, row) => [
          rows[name]!,
          ...Array.from(film.layers, (_, frame) =>
            Array.from(matrix(row, frame), (value) => number(value, 2)).join(" "),
          ),
        ]),
      })}
      main={
        <div class="film">
          <div class="film-row film-head">
            <span>layer</span>
            {Array.from(film.layers, (layer) => (
              <span>{layer}</span>
            ))}
          </div>
          {names.map((name, row) => (
            <div class="film-row" data-fate={fates[row]}>
              <span>{rows[name]}</span>
              {Array.from(film.layers, (layer, frame) => (
                <svg
                  viewBox={`0 0 ${size} ${size}`}
                  role="img"
                  aria-label={`${rows[name]}, layer ${layer}`}
                >
                  <LetterF
                    plane={p}
                    matrix={matrix(row, frame)}
                    colour={colours[row]!}
                    at={[-0.08, -0.03]}
                  />
                </svg>
              ))}
            </div>
          ))}
        </div>
      }
      controls={["gamma", <Choose widget={widget} name="init" />]}
      more={["seed"]}
    />
  );
}
