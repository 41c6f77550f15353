import { type Story } from "./parts.tsx";

export const spectrum: Story = {
  title: "Many layers at once",
  before: (
    <p>
      Training depends on the product of all layers, each with a random branch next to its mixer:
      the singular values of this Jacobian determine how much a gradient grows or shrinks in the
      backward pass. In the limit of wide streams a fixed-point equation gives their density. The
      line is that theory, the filled shape is the histogram of random matrices of the stated size.
    </p>
  ),
  after: (
    <>
      <p>
        Theory and samples agree at every depth. An orthogonal mixer gives the same density as the
        identity, so the operator neither helps nor harms there. A mixer that contracts everything
        across the mean stream, as doubly stochastic ones do, loses three quarters of its singular
        values with four streams. Choose others, and play the depth.
      </p>
      <p>
        JPmHC prints an equation for the same density, with the self-energy in another position.
        Switch it on to see its error.
      </p>
    </>
  ),
  claims: [
    {
      claim: "orthogonal mixers have the law of the identity at every depth",
      verdict: "holds",
      by: "ChainEquation.OrthogonalMixersHaveTheLawOfTheIdentityAtEveryDepth",
    },
    {
      claim: "doubly stochastic layers put three quarters of the mass below a tenth at depth ten",
      verdict: "holds",
      by: "ChainEquation.BistochasticLayersAtDepthTenPutThreeQuartersOfTheMassBelowATenth",
    },
    {
      claim: "JPmHC's printed spectral equation: it loses the noise from the first moment",
      verdict: "wrong",
      by: "PrintedEquation.LosesTheNoiseFromTheFirstMoment",
    },
  ],
  data: [],
};
