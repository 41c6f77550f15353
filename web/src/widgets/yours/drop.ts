// The files of a drop, folders walked.

interface Entry {
  isFile: boolean;
  isDirectory: boolean;
  fullPath: string;
  file?(done: (file: File) => void, failed: (error: unknown) => void): void;
  createReader?(): {
    readEntries(done: (entries: Entry[]) => void, failed: (e: unknown) => void): void;
  };
}

const most = 500; // files of one drop

export async function droppedFiles(
  transfer: DataTransfer,
): Promise<{ path: string; file: File }[]> {
  const entries = [...transfer.items]
    .map((item) => item.webkitGetAsEntry?.() as Entry | null)
    .filter((entry) => entry !== null);
  if (!entries.length) return [...transfer.files].map((file) => ({ path: file.name, file }));
  const found: { path: string; file: File }[] = [];
  const walk = async (entry: Entry): Promise<void> => {
    if (found.length >= most) return;
    if (entry.isFile) {
      const file = await new Promise<File>((done, failed) => entry.file!(done, failed));
      found.push({ path: entry.fullPath.replace(/^\//, ""), file });
    } else if (entry.isDirectory) {
      const reader = entry.createReader!();
      for (;;) {
        const part = await new Promise<Entry[]>((done, failed) => reader.readEntries(done, failed));
        if (!part.length) break;
        for (const child of part) await walk(child);
      }
    }
  };
  for (const entry of entries) await walk(entry);
  return found;
}
