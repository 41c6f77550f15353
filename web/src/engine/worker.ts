// The page's worker: reads dropped files, and computes spectra piece by piece.
import { parseFile } from "../runs/files.ts";
import { messageOf, Module } from "./modules.ts";
import type { Answer, Question } from "./worker_client.ts";

let spectrum: Module<"spectrum"> | undefined;

function answer(question: Question): Answer {
  const { id } = question;
  if (question.kind === "parse") {
    const parsed = parseFile(question.name, question.bytes);
    return { id, value: parsed };
  }
  if (question.kind === "start") {
    spectrum = new Module("spectrum", question.module).startNow();
    return { id, value: null };
  }
  if (!spectrum) return { id, refusal: "[spectrum] is not started" };
  try {
    return { id, value: spectrum.call(question.name, question.inputs as never) };
  } catch (error) {
    spectrum.startNow();
    return { id, refusal: messageOf(error) };
  }
}

export const serve = () =>
  addEventListener("message", (event: MessageEvent<Question>) => {
    postMessage(answer(event.data));
  });
