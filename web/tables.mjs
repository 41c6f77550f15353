// The widgets' static data: their inputs with ranges and names, the fields of the
// modules' structs. These sources are run here, and the page carries what they export as JSON in a
// block of its own, so that the script does not hold it.
import { readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { build } from "esbuild";

const nameOf = (path) => {
  const stem = basename(path, ".ts");
  return stem === "state" ? basename(dirname(path)) : stem;
};

// The exports of every source of tables, by its name in the block.
export async function readTables(src) {
  const widgets = join(src, "widgets");
  const paths = [
    join(src, "engine/layout.ts"),
    ...readdirSync(widgets, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => join(widgets, entry.name, "state.ts")),
  ];
  const contents = paths
    .map((path) => `export * as ${nameOf(path)} from ${JSON.stringify(path)};`)
    .join("\n");
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: src, loader: "ts" },
    bundle: true,
    write: false,
    format: "esm",
    charset: "utf8",
  });
  const url = `data:text/javascript;base64,${Buffer.from(outputFiles[0].text).toString("base64")}`;
  const tables = {};
  for (const [name, exported] of Object.entries(await import(url))) {
    tables[name] = { ...exported };
    if (!isDeepStrictEqual(JSON.parse(JSON.stringify(tables[name])), tables[name]))
      throw new Error(`${name}: its tables are not plain data`);
  }
  return tables;
}

// For the page's script: a source of tables becomes a look into the block.
export const fromBlock = (src, tables) => ({
  name: "tables",
  setup({ onLoad }) {
    onLoad({ filter: /[/\\](state|layout)\.ts$/ }, ({ path }) => {
      const name = nameOf(path);
      if (!tables[name]) return undefined;
      const block = JSON.stringify(join(src, "engine/tables.ts"));
      const keys = Object.keys(tables[name]).join(", ");
      return {
        loader: "js",
        contents: `import { tables as block } from ${block};\nexport const { ${keys} } = block.${name};`,
      };
    });
  },
});
