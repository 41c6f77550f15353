import { type Story } from "./parts.tsx";

export const streams: Story = {
  title: "Every other operator",
  before: (
    <p>
      Hyper-connections keep several streams and mix them with a small matrix before each layer. The
      papers constrain that matrix differently: not at all (HC), sums of one (mHC, by Sinkhorn or by
      permutations), sums and norm of one (sHC), orthogonality (JPmHC, EΔ at the ends of its gate),
      a projection (Grassmann). Choose one, and another to compare it with.
    </p>
  ),
  after: (
    <p>
      Raise the number of layers. Sums of one protect one direction, the mean of the streams, and
      nothing else: the second singular value and all below it go to zero together as layers
      multiply. Orthogonality protects every direction. Neither determines how the network uses
      them. The inset is about training: JPmHC's sixteen sweeps for Sinkhorn's gradient have not
      converged where mHC starts, near the identity; solving the small system directly is exact.
    </p>
  ),
  claims: [
    {
      claim: "sixteen Gauss–Seidel sweeps give Sinkhorn's gradient",
      verdict: "wrong",
      by: "Sinkhorn.SixteenGaussSeidelSweepsAreNotEnoughNearIdentity",
    },
    {
      claim: "a mixture of permutations is doubly stochastic with norm one",
      verdict: "holds",
      by: "PermutationMixture.IsDoublyStochasticWithSpectralNormOne",
    },
    {
      claim: "the Grassmann mixer is a projector of half the streams",
      verdict: "holds",
      by: "Grassmann.MixerIsAProjectorOfHalfTheStreams",
    },
  ],
  data: [],
};
