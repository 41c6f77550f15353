// Sets the formulas of all pages with KaTeX:  maths.mjs KATEX SITE.  A formula with an error fails.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [library, site] = process.argv.slice(2);
const katex = createRequire(import.meta.url)(library);
const entities = { lt: "<", gt: ">", amp: "&", quot: '"', "#39": "'" };
const plain = (text) => text.replace(/&(lt|gt|amp|quot|#39);/g, (_, name) => entities[name]);
const formula = /<(span|div) class="arithmatex">\\([([])([\s\S]*?)\\[)\]]<\/\1>/g;

let failed = 0;
for (const name of readdirSync(site, { recursive: true })) {
  if (!name.endsWith(".html") || name.startsWith("source")) continue;
  const path = join(site, name);
  const before = readFileSync(path, "utf8");
  const after = before.replace(formula, (_, tag, kind, text) => {
    try {
      const set = katex.renderToString(plain(text), { displayMode: kind === "[", strict: "error" });
      return `<${tag} class="maths">${set}</${tag}>`;
    } catch (error) {
      console.error(`${name}: ${error.message}`);
      failed = 1;
      return "";
    }
  });
  if (after !== before) writeFileSync(path, after);
}
process.exit(failed);
