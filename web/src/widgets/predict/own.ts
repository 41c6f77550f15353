// The weights of a run that the reader opened, as a model.
import { useEffect, useState } from "preact/hooks";
import { messageOf } from "../../engine/modules.ts";
import { Model } from "../../engine/predictor.ts";
import { predictorCode } from "../../engine/predictor_code.ts";
import { useRuns } from "../../runs/store.ts";

export interface Own {
  model: Model | null;
  name: string;
  note: string;
  refusal: string;
}
const none: Own = { model: null, name: "", note: "", refusal: "" };

export function useOwnModel(): Own {
  const { runs } = useRuns();
  const run = [...runs].reverse().find((item) => item.weights && item.configText);
  const [own, setOwn] = useState<Own>(none);
  useEffect(() => {
    let wanted = true;
    if (!run) {
      setOwn(none);
      return;
    }
    const start = async () => {
      try {
        const started = await Model.start(
          run.name,
          await predictorCode(),
          run.weights!,
          run.configText!,
        );
        if (started.info.input_width !== 16)
          throw new Error(`its states have width ${started.info.input_width}, this path has 16`);
        if (wanted)
          setOwn({
            model: started,
            name: run.name,
            note: started.info.causal
              ? `${run.name} is drawn too.`
              : `${run.name} is not causal: it has seen the states that it predicts.`,
            refusal: "",
          });
      } catch (error) {
        if (wanted)
          setOwn({
            ...none,
            note: `${run.name} is not drawn: ${messageOf(error)}.`,
          });
      }
    };
    void start();
    return () => {
      wanted = false;
    };
  }, [run?.weights, run?.configText]);
  return own;
}
