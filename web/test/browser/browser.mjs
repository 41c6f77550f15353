// Headless Chromium on the built file, opened from disk.
import { existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const here = dirname(fileURLToPath(import.meta.url));
export const file = process.env.EXPLORER ?? resolve(here, "../../../build/web/explorer.html");
export const page_url = pathToFileURL(file).href;

function executable() {
  const known = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"];
  const found = [process.env.CHROMIUM, ...known].find((path) => path && existsSync(path));
  if (!found) throw new Error("no Chromium: install Debian's chromium, or set CHROMIUM");
  return found;
}

export const launch = () =>
  chromium.launch({
    executablePath: executable(),
    args: [
      ...(process.getuid?.() === 0 ? ["--no-sandbox"] : []),
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });

// Opens the page and watches it: `said` collects console lines and errors, `asked` every request but
// the file itself.
export async function open(browser, { hash = "", alive = true, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const said = [];
  const asked = [];
  page.on("console", (message) => said.push(message.text()));
  page.on("pageerror", (error) => said.push(String(error)));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(page_url) && !url.startsWith("data:,") && !url.startsWith("blob:"))
      asked.push(url);
  });
  await page.goto(page_url + hash);
  if (alive) await page.waitForSelector("html[data-alive=yes]", { state: "attached" });
  return { page, context, said, asked };
}

export const settle = (page, ms = 60) => page.waitForTimeout(ms);
export const temporary = () => mkdtempSync(join(tmpdir(), "explorer-"));
