import { F, type Story } from "./parts.tsx";

export const results: Story = {
  title: "The tables",
  before: (
    <p>
      We ran the EΔ paper’s tables at its own size, three seeds each, and compared every model with
      five trivial predictors: zero, copy the input, the running mean, minus the input, and one
      matrix fitted to the training set. A hollow diamond is a published number, a dot is one of our
      runs. Choose a claim to see its two rows.
    </p>
  ),
  after: (
    <>
      <p>
        The baselines come out as published, so data and protocol are the paper’s: GPT on gyroscope
        reaches <F k="main/gyroscope/gpt/best" />, published <F k="main/gyroscope/gpt/published" />.
      </p>
      <p>
        On three of the four tasks a trivial predictor wins. On stability the running mean reaches{" "}
        <F k="main/stability/no_model/running_mean" />, EΔ <F k="main/stability/edelta/best" />.
        Near π one linear map is exact, and in 32 planes −x alone beats every model.
      </p>
      <p>
        The table of norms needs care, too. It measures deviations on random vectors after one task.
        A copier scores <F k="norms_baselines/copy" /> there; the right answer of that task, the
        running mean, scores <F k="norms_baselines/running_mean" />. A small deviation is no merit
        by itself.
      </p>
    </>
  ),
  claims: [
    {
      paper: "EΔ",
      claim: "EΔ beats GPT on stability.",
      verdict: "holds",
      by: "results: claim/EΔ beats GPT on stability/verdict",
    },
    {
      paper: "EΔ",
      claim: "EΔ beats GPT on gyroscope.",
      find: "Three seeds are too few to tell.",
      verdict: "open",
      by: "results: claim/EΔ beats GPT on gyroscope/verdict",
    },
    {
      paper: "EΔ",
      claim: "EΔ is the best there is on stability and near π.",
      find: "Trivial predictors are better.",
      verdict: "wrong",
      by: "results: main/stability/no_model/running_mean",
    },
    {
      paper: "EΔ",
      claim: "A small norm deviation on random vectors is a merit.",
      find: "The right answer has a large one.",
      verdict: "wrong",
      by: "Norms.TheRunningMeanIsFarFromPreservingNorms",
    },
  ],
  data: ["docs/results/results.json"],
};
