import { Formula, type Story } from "./parts.tsx";

export const skew: Story = {
  title: "Two vectors make a generator",
  before: (
    <>
      <p>
        A rotation that a network can learn has to come from free numbers, because an optimiser
        moves numbers without asking whether they still form a rotation. EΔ takes two free vectors u
        and v, as long as the network has streams, and makes a matrix of them:
      </p>
      <Formula tex="A = u v^{\mathsf T} - v u^{\mathsf T}, \qquad A + A^{\mathsf T} = 0." />
      <p>
        Whatever u and v are, A is skew: each entry below the diagonal is minus the one above it.
        Drag the two points. The only size that A has is the area of the parallelogram between u and
        v, called μ; the only direction it has is their plane.
      </p>
    </>
  ),
  after: (
    <p>
      Put u on the line of v. The area is gone, A is exactly zero, and there is no plane to turn in.
      The operator built from it is then the identity, not something undefined: the closed form used
      here has no division that could fail.
    </p>
  ),
  claims: [
    {
      claim: "parallel u and v give exactly the identity",
      verdict: "holds",
      by: "Cayley.DegeneratePairsGiveExactlyTheIdentity",
    },
    {
      claim: "A³ = −μ²A, so one plane and one size are all there is",
      verdict: "holds",
      by: "Cayley.GeneratorCubedIsMinusMuSquaredTimesItself",
    },
  ],
  data: [],
};
