// Brings the page to life: unpacks modules, then hydrates each widget in the document. The prose is
// never touched.
import { h, hydrate } from "preact";
import { install, isLoaded } from "./engine/engine.ts";
import type { ModuleName } from "./engine/layout.ts";
import { messageOf, Module } from "./engine/modules.ts";
import { installModel, Model } from "./engine/predictor.ts";
import { predictorCode } from "./engine/predictor_code.ts";
import { parsed, unpack } from "./engine/unpack.ts";
import { serve } from "./engine/worker.ts";
import { setPageData } from "./numbers/store.ts";
import { addEmbedded } from "./runs/store.ts";
import { follow, link, setLink, startLinks } from "./state/link.ts";
import { registry } from "./widgets/registry.ts";

const started = new Map<string, Promise<void>>();

function need(name: ModuleName | "data" | "models"): Promise<void> {
  let promise = started.get(name);
  if (!promise) {
    promise = name === "data" ? needData() : name === "models" ? needModels() : needModule(name);
    started.set(name, promise);
  }
  return promise;
}

async function needData() {
  setPageData(JSON.parse(new TextDecoder().decode(await unpack("data"))));
}

async function needModels() {
  const code = await predictorCode();
  for (const name of ["edelta", "gpt"])
    installModel(await Model.start(name, code, await unpack(`model-${name}`)));
}

async function needModule(name: ModuleName) {
  if (isLoaded(name)) return;
  const code = await WebAssembly.compile(await unpack(`wasm-${name}`));
  install(await new Module(name, code).start());
}

async function bring(island: HTMLElement) {
  const entry = registry[island.dataset["widget"]!];
  if (!entry || island.dataset["alive"]) return;
  island.dataset["alive"] = "starting";
  await Promise.all(entry.needs.map(need));
  hydrate(h(entry.view, {}), island);
  island.dataset["alive"] = "yes";
}

// Lets the browser do something else first. A message comes at once; timers in a chain wait 4 ms each.
const pause = () =>
  new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = resolve;
    port2.postMessage(0);
  });

async function bringAll() {
  const islands = [...document.querySelectorAll<HTMLElement>("[data-widget]")];
  const lazy = islands.filter((island) => "late" in island.dataset);
  const watch = new IntersectionObserver(
    (entries) => {
      for (const entry of entries)
        if (entry.isIntersecting) {
          watch.unobserve(entry.target);
          void bring(entry.target as HTMLElement).catch(report);
        }
    },
    { rootMargin: "1200px" },
  );
  for (const island of lazy) watch.observe(island);
  follow((now) => {
    const linked = lazy.find((island) => island.dataset["widget"] === now.id);
    if (linked) void bring(linked).catch(report);
  });
  const visible = (island: HTMLElement) => island.getBoundingClientRect().top < innerHeight;
  const eager = islands.filter((island) => !lazy.includes(island));
  eager.sort((a, b) => Number(visible(b)) - Number(visible(a)));
  for (const island of eager) {
    await bring(island);
    await pause(); // one widget a task: the page stays responsive
  }
  document.documentElement.dataset["alive"] = "yes";
}

function report(error: unknown) {
  const line = document.getElementById("trouble");
  if (!line) return;
  line.hidden = false;
  line.textContent = `The figures stay as they are: ${messageOf(error)}.`;
}

function themes() {
  const button = document.getElementById("theme");
  const dark = () =>
    link().theme === "dark" ||
    (link().theme === "" && matchMedia("(prefers-color-scheme: dark)").matches);
  follow(({ theme }) => {
    if (theme) document.documentElement.dataset["theme"] = theme;
    else delete document.documentElement.dataset["theme"];
  });
  button?.addEventListener("click", () => {
    const theme = dark() ? "light" : "dark";
    setLink({ theme });
    document.documentElement.dataset["theme"] = theme;
  });
}

// The list of sections lies over the page: it closes when a section was chosen, by Escape, and by a tap
// outside. The bar names the section that is being read.
function sections() {
  const list = document.querySelector<HTMLDetailsElement>(".bar details");
  const here = document.getElementById("here");
  if (!list || !here) return;
  const close = () => (list.open = false);
  list.addEventListener("click", (event) => {
    if ((event.target as HTMLElement).closest("a")) close();
  });
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
  });
  addEventListener("pointerdown", (event) => {
    if (!list.contains(event.target as Node)) close();
  });
  const links = new Map(
    [...list.querySelectorAll("a")].map((link) => [link.hash.slice(1), link] as const),
  );
  const watch = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        const link = links.get(entry.target.id);
        if (!entry.isIntersecting || !link) continue;
        for (const other of links.values()) other.removeAttribute("aria-current");
        link.setAttribute("aria-current", "true");
        here.textContent = ` · ${link.textContent}`;
      }
    },
    { rootMargin: "-20% 0px -75% 0px" },
  );
  for (const id of links.keys()) {
    const section = document.getElementById(id);
    if (section) watch.observe(section);
  }
}

function start() {
  document.documentElement.dataset["script"] = "yes";
  startLinks();
  themes();
  sections();
  if (typeof WebAssembly !== "object") report("this browser has no WebAssembly");
  else if (typeof DecompressionStream !== "function")
    report("this browser has no DecompressionStream");
  else
    bringAll()
      .then(() => parsed)
      .then(() => addEmbedded(document.getElementById("runs")?.textContent ?? "[]"))
      .catch(report);
}

// The same script is the page's and, without a document, its worker's.
if (typeof document === "undefined") serve();
else start();
