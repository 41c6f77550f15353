// The page's one link: "#gate?gamma=0.25&theme=dark". The widget that was touched last writes it, at
// most four times a second; every widget listens.

export interface Link {
  id: string;
  query: string;
  theme: "" | "light" | "dark";
}

// Sections that others have taken in.
const moved: Record<string, string> = { skew: "turn" };

export function readHash(hash: string): Link {
  const text = hash.replace(/^#/, "").slice(0, 5000);
  const cut = text.indexOf("?");
  const id = cut < 0 ? text : text.slice(0, cut);
  const query = cut < 0 ? "" : text.slice(cut + 1);
  const theme = /(?:^|&)theme=(light|dark)(?:&|$)/.exec(query)?.[1] ?? "";
  return {
    id: /^[a-z]{1,20}$/.test(id) ? (moved[id] ?? id) : "",
    query,
    theme: theme as Link["theme"],
  };
}

export function writeHash(link: Link): string {
  const parts = link.query.split("&").filter((part) => part !== "" && !part.startsWith("theme="));
  if (link.theme) parts.push(`theme=${link.theme}`);
  const query = parts.length ? `?${parts.join("&")}` : "";
  return link.id || query ? `#${link.id}${query}` : "";
}

const listeners = new Set<(link: Link) => void>();
let current: Link = { id: "", query: "", theme: "" };
let timer: ReturnType<typeof setTimeout> | undefined;

export const link = () => current;

function write() {
  timer = undefined;
  const hash = writeHash(current);
  if (hash !== location.hash) {
    const page = location.href.replace(/#.*$/, "");
    history.replaceState(null, "", hash === "" ? page : page + hash);
  }
}

export function setLink(change: Partial<Link>) {
  current = { ...current, ...change };
  timer ??= setTimeout(write, 250);
}

export function linkTo(id: string, query: string): string {
  return location.href.replace(/#.*$/, "") + writeHash({ id, query, theme: current.theme });
}

export function follow(listener: (link: Link) => void): () => void {
  listeners.add(listener);
  listener(current);
  return () => listeners.delete(listener);
}

export function startLinks() {
  const read = () => {
    if (timer) clearTimeout(timer);
    timer = undefined;
    current = readHash(location.hash);
    for (const listener of listeners) listener(current);
    if (current.id) document.getElementById(current.id)?.scrollIntoView();
  };
  addEventListener("hashchange", read);
  read();
}
