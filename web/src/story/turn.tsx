import { Formula, type Story } from "./parts.tsx";

export const turn: Story = {
  title: "Cayley makes it a rotation",
  before: (
    <>
      <p>
        A skew matrix is the speed of a rotation. Cayley's formula turns it into the rotation
        itself, with one more free number β for how far:
      </p>
      <Formula tex="Q = \left(I + \tfrac{\beta}{2} A\right)^{-1} \left(I - \tfrac{\beta}{2} A\right)," />
      <Formula tex="\theta = 2 \arctan \frac{\beta\mu}{2}." />
      <p>
        The inverse always exists, QᵀQ is the identity and the determinant is 1, at every β. Drag
        the end of the arc. It moves easily at first and then hardly at all: θ comes as close to
        180° as you like, and β has to grow without end for it.
      </p>
    </>
  ),
  after: (
    <>
      <p>
        “Orthogonal for every β” is a statement about exact numbers. The result of a computer
        depends on the algorithm. Solving the linear system in float32 loses orthogonality in
        proportion to β. The closed form, which uses that A lives in one plane, does not: its curve
        stays at rounding error up to β = 10⁸. Choose float32 and linear solve, and raise β.
      </p>
    </>
  ),
  claims: [
    {
      claim: "det Q = +1",
      verdict: "holds",
      by: "Cayley.DeterminantIsPlusOne",
    },
    {
      claim: "Q is orthogonal for all β: in exact arithmetic, and in float32 by the closed form",
      verdict: "sharper",
      by: "Cayley.FloatIsOrthogonalTo2e6OverAHundredThousandExtremeDraws",
    },
    {
      claim: "θ = 2 atan(βμ/2)",
      verdict: "holds",
      by: "Cayley.BetaMuEqualToTwiceTheTangentOfHalfAnAngleTurnsByThatAngle",
    },
  ],
  data: [],
};
