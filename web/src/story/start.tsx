import { F, N, type Story } from "./parts.tsx";

export const start: Story = {
  title: "The start decides, not the operator",
  before: (
    <p>
      Where, then, do EΔ’s results come from? Its code puts two linear maps around every sublayer.
      The paper says that both start as the identity; the code starts them small. So there are two
      differences from GPT, the operator of <N is="edelta" /> and the start, and we changed one at a
      time.
    </p>
  ),
  after: (
    <>
      <p>
        Keep the maps and take the operator away, and near π the error falls to{" "}
        <F k="start/near_pi/none_small/best" />. Keep the operator and let the maps start as the
        identity, and it rises to <F k="start/near_pi/hybrid_identity/best" />. Of the four tasks
        the operator helps on gyroscope alone: <F k="start/gyroscope/hybrid_small/best" /> with it,{" "}
        <F k="start/gyroscope/none_small/best" /> without.
      </p>
      <p>
        The maps are not needed either. GPT’s own blocks, with weights that start small and take
        short steps, reach <F k="explain/gyroscope/small_slow/best" /> on gyroscope. And an operator
        that is orthogonal at all parameter values reaches{" "}
        <F k="orthogonal/gyroscope/unitary/best" /> against <F k="orthogonal/gyroscope/none/best" />{" "}
        without one; three seeds cannot tell them apart.
      </p>
    </>
  ),
  claims: [
    {
      paper: "EΔ",
      claim: "EΔ’s operator earns its results.",
      find: "Without the operator and with the same start, near π is better.",
      verdict: "wrong",
      by: "results: start/near_pi/none_small/best",
    },
    {
      paper: "EΔ",
      claim: "An operator that is orthogonal at all parameter values is better than none.",
      find: "Three seeds are too few to tell.",
      verdict: "open",
      by: "results: contrast/orthogonal/gyroscope/complex reflection/p",
    },
  ],
  data: ["start", "explain", "orthogonal"].map((name) => `docs/results/${name}.json`),
};
