import { M, N, type Story } from "./parts.tsx";

export const spectrum: Story = {
  title: "Many layers at once",
  before: (
    <p>
      Training depends on the product of all layers, each with a random branch next to its mixer:
      the singular values of this Jacobian say how much a gradient grows or shrinks on its way back.
      In the limit of wide streams an equation gives their density. The blue line is that theory.
      The dashed line has the singular values of random matrices of the stated size, with the same
      blur; the grey bars have them without it.
    </p>
  ),
  after: (
    <>
      <p>
        Theory and samples agree at every depth. An orthogonal mixer gives the same density as the
        identity. <em>Random</em> doubly stochastic mixers contract everything but the mean stream:
        with four streams three of four directions are lost. Mixers as <N is="mhc" /> initialises
        them lose hardly anything. Choose others, and play the depth.
      </p>
      <p>
        JPmHC prints an equation for the same density that misplaces one term, the part of the
        branches. The second button shows where it fails; for small branches (<M>σ²L</M> under
        “More”) the two curves nearly coincide.
      </p>
    </>
  ),
  claims: [
    {
      paper: "JPmHC",
      claim: "Orthogonal mixers keep the spectrum of the identity at every depth.",
      verdict: "holds",
      by: "ChainEquation.OrthogonalMixersHaveTheLawOfTheIdentityAtEveryDepth",
    },
    {
      paper: "JPmHC",
      claim: "Doubly stochastic mixers collapse with depth.",
      find: "Random ones put three quarters of the spectrum below a tenth at depth ten.",
      verdict: "holds",
      by: "ChainEquation.BistochasticLayersAtDepthTenPutThreeQuartersOfTheMassBelowATenth",
    },
    {
      paper: "JPmHC",
      claim: "The printed equation describes the spectrum.",
      find: "Its mean square lacks the part of the branches.",
      verdict: "wrong",
      by: "PrintedEquation.LosesTheNoiseFromTheFirstMoment",
    },
  ],
  data: ["docs/results/explorer.json"],
};
