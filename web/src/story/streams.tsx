import { N, type Story } from "./parts.tsx";

export const streams: Story = {
  title: "Every operator on one bench",
  before: (
    <p>
      Hyper-connections keep several streams and mix them with a small matrix before each layer. The
      papers constrain that matrix differently: not at all (<N is="hc" />
      ); rows and columns that sum to one (<N is="mhc" />, <N is="mhc_lite" />
      ); spectral norm one as well (
      <N is="shc" />
      ); orthogonality (<N is="jpmhc" />, and <N is="edelta" /> at the ends of its gate). Multiply
      layers and watch the singular values.
    </p>
  ),
  after: (
    <>
      <p>
        Multiply <em>random</em> doubly stochastic matrices, and only one direction survives, the
        mean of the streams: the other singular values go to zero together. Orthogonality protects
        every direction.
      </p>
      <p>
        But mHC and sHC do not start at random. They start next to the identity, where even many
        layers lose little, and training leaves them near it: switch to “as initialised” and to
        “trained”. What decides is how far the singular values are from one, not the constraint.
        Neither says whether the network is better off for it.
      </p>
    </>
  ),
  claims: [
    {
      paper: "JPmHC",
      claim: "Sixteen Gauss–Seidel sweeps give Sinkhorn’s gradient.",
      find: "Near the identity, where mHC starts, they have not converged.",
      verdict: "wrong",
      by: "Sinkhorn.SixteenGaussSeidelSweepsAreNotEnoughNearIdentity",
    },
    {
      paper: "mHC",
      claim: "A mixture of permutations is doubly stochastic and has norm one.",
      verdict: "holds",
      by: "PermutationMixture.IsDoublyStochasticWithSpectralNormOne",
    },
    {
      paper: "JPmHC",
      claim: "The Grassmann mixer projects on half the streams.",
      verdict: "holds",
      by: "Grassmann.MixerIsAProjectorOfHalfTheStreams",
    },
  ],
  data: ["docs/results/explorer.json"],
};
