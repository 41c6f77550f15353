// The page's serif: a subset of Debian's Linux Libertine, as style rules with the face inside.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const folder = "/usr/share/fonts/opentype/linux-libertine";
const cuts = [
  { file: "LinLibertine_R.otf", style: "normal", weight: 400 },
  { file: "LinLibertine_RI.otf", style: "italic", weight: 400 },
  { file: "LinLibertine_RZ.otf", style: "normal", weight: 600 },
];
// Basic Latin, Greek, and the signs that the prose and its mathematics use.
const signs =
  "U+0020-007E,U+00A0,U+00B0-00B7,U+00BC-00BE,U+00D7,U+00E9,U+0391-03C9,U+2010-2014,U+2018-201D," +
  "U+2026,U+2070-2079,U+207A,U+207B,U+2080-2089,U+2016,U+2190-2194,U+2202,U+2207,U+2208,U+2211,U+2212," +
  "U+221A,U+221E,U+2225,U+2248,U+2260,U+2261,U+2264,U+2265,U+03F5";

export const licence = () => readFileSync("/usr/share/doc/fonts-linuxlibertine/copyright", "utf8");

// The glyphs are small for their size: size-adjust brings them to that of the system's serifs.
export function faces() {
  const scratch = mkdtempSync(join(tmpdir(), "face-"));
  try {
    return cuts
      .map(({ file, style, weight }) => {
        const out = join(scratch, `${file}.woff2`);
        execFileSync("pyftsubset", [
          join(folder, file),
          `--unicodes=${signs}`,
          "--flavor=woff2",
          "--layout-features=kern,liga,lnum,tnum,pnum",
          "--no-hinting",
          "--drop-tables+=FFTM",
          "--desubroutinize",
          `--output-file=${out}`,
        ]);
        const data = readFileSync(out).toString("base64");
        return `@font-face{font-family:Libertine;font-style:${style};font-weight:${weight};size-adjust:110%;src:url(data:font/woff2;base64,${data})}`;
      })
      .join("");
  } finally {
    rmSync(scratch, { recursive: true });
  }
}
