import { F, type Story } from "./parts.tsx";

export const results: Story = {
  title: "What the tables say",
  before: (
    <p>
      We ran the EΔ paper's tables at its own size, three seeds each, and put beside every model
      five predictors that are no models: zero, copy the input, the running mean, minus the input,
      and one matrix fitted to the train set. A hollow diamond is what was published, a dot is one
      of our runs, a dashed line needs no model. Choose a claim to see its two rows.
    </p>
  ),
  after: (
    <>
      <p>
        The baselines come out as published, so data and protocol are the paper's: GPT on gyroscope
        has <F k="main/gyroscope/gpt/best" />, published <F k="main/gyroscope/gpt/published" />. On
        three of the four tasks a predictor without a model wins. On stability the running mean has{" "}
        <F k="main/stability/no_model/running_mean" />, EΔ <F k="main/stability/edelta/best" />,
        published <F k="main/stability/edelta/published" />. Near π one linear map is exact, and in
        32 planes −x alone, with <F k="main/near_pi_multi/no_model/negate" />, beats every model.
      </p>
      <p>
        Table 18 is the other one to read with care. A norm deviation of{" "}
        <F k="norms_published/edelta" /> for EΔ against <F k="norms_published/gpt" /> for GPT was
        measured on random vectors, after one task. A copier scores <F k="norms_baselines/copy" />{" "}
        there and the right answer of that task, the running mean,{" "}
        <F k="norms_baselines/running_mean" />. After gyroscope the order is another: GPT{" "}
        <F k="norms/gyroscope/gpt" />, EΔ <F k="norms/gyroscope/edelta" />.
      </p>
    </>
  ),
  claims: [
    {
      claim: "EΔ beats GPT on stability",
      verdict: "holds",
      by: "results: claim/EΔ beats GPT on stability/verdict",
    },
    {
      claim: "EΔ beats GPT on gyroscope: three seeds cannot carry it",
      verdict: "open",
      by: "results: claim/EΔ beats GPT on gyroscope/verdict",
    },
    {
      claim:
        "EΔ is the best there is on stability and near π: predictors without a model are better",
      verdict: "wrong",
      by: "results: main/stability/no_model/running_mean",
    },
    {
      claim:
        "a small norm deviation on random vectors is a merit: the right answer has a large one",
      verdict: "wrong",
      by: "Norms.TheRunningMeanIsFarFromPreservingNorms",
    },
  ],
  data: ["docs/results/results.json"],
};
