import { F, type Story } from "./parts.tsx";

export const results: Story = {
  title: "The tables",
  before: (
    <p>
      We ran the EΔ paper's tables at its own size, three seeds each, and compare every model with
      five trivial predictors: zero, copy the input, the running mean, minus the input, and one
      matrix fitted to the train set. A hollow diamond is a published number, a dot is one of our
      runs, a dashed line needs no model. Choose a claim to see its two rows.
    </p>
  ),
  after: (
    <>
      <p>
        The baselines come out as published, so data and protocol are the paper's: GPT on gyroscope
        reaches <F k="main/gyroscope/gpt/best" />, published <F k="main/gyroscope/gpt/published" />.
        On three of the four tasks a predictor without a model wins. On stability the running mean
        reaches <F k="main/stability/no_model/running_mean" />, EΔ{" "}
        <F k="main/stability/edelta/best" />, published <F k="main/stability/edelta/published" />.
        Near π one linear map is exact, and in 32 planes −x alone, with{" "}
        <F k="main/near_pi_multi/no_model/negate" />, beats every model.
      </p>
      <p>
        Table 18 is the other one to read with care. A norm deviation of{" "}
        <F k="norms_published/edelta" /> for EΔ against <F k="norms_published/gpt" /> for GPT was
        measured on random vectors, after one task. A copier scores <F k="norms_baselines/copy" />{" "}
        there and the right answer of that task, the running mean,{" "}
        <F k="norms_baselines/running_mean" />. After gyroscope the order is another: GPT{" "}
        <F k="norms/gyroscope/gpt" />, EΔ <F k="norms/gyroscope/edelta" />.
      </p>
      <p>
        What explains EΔ's results? Its code puts two linear maps around every sublayer, and both
        start small. Keep the maps and take the operator away, and near π the error falls from{" "}
        <F k="start/near_pi/hybrid_small/best" /> to <F k="start/near_pi/none_small/best" />; keep
        the operator and let the maps start as the identity, and it rises to{" "}
        <F k="start/near_pi/hybrid_identity/best" />. Of four tasks the operator helps only on
        gyroscope: <F k="start/gyroscope/hybrid_small/best" /> with it,{" "}
        <F k="start/gyroscope/none_small/best" /> without, GPT <F k="start/gyroscope/gpt/best" />.
        The initialisation decides, not the operator. The maps are not needed either: GPT's own
        blocks, with weights that start small and take short steps, reach{" "}
        <F k="explain/gyroscope/small_slow/best" /> and, near π,{" "}
        <F k="explain/near_pi/small_slow/best" />.
      </p>
      <p>
        We also built an operator that is orthogonal at all parameter values, without a gate.
        Compared with no operator, all else equal, it reaches{" "}
        <F k="orthogonal/gyroscope/unitary/best" /> against <F k="orthogonal/gyroscope/none/best" />{" "}
        on gyroscope. With three seeds the difference is not significant: p ={" "}
        <F k="contrast/orthogonal/gyroscope/complex reflection/p" />.
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
      claim: "EΔ beats GPT on gyroscope: not significant with three seeds",
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
    {
      claim:
        "EΔ's operator earns its results: with the same start and no operator near π is better",
      verdict: "wrong",
      by: "results: start/near_pi/none_small/best",
    },
    {
      claim: "an operator that is orthogonal at all parameter values is better than none",
      verdict: "open",
      by: "results: contrast/orthogonal/gyroscope/complex reflection/p",
    },
  ],
  data: ["results", "start", "explain", "orthogonal"].map((name) => `docs/results/${name}.json`),
};
