// The data blocks in <script type="application/octet-stream">: gzipped, base64.

export function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  return bytes;
}

// Large blocks are after the script, which starts before the parser has reached them.
export const parsed = new Promise<void>((done) => {
  if (typeof document === "undefined" || document.readyState !== "loading") done();
  else document.addEventListener("DOMContentLoaded", () => done());
});

export async function unpack(id: string): Promise<Uint8Array<ArrayBuffer>> {
  if (!document.getElementById(id)) await parsed;
  const block = document.getElementById(id);
  if (!block) throw new Error(`the page lacks ${id}`);
  const packed = bytesOf((block.textContent ?? "").trim());
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
