import { Formula, M, N, type Story } from "./parts.tsx";

export const turn: Story = {
  title: "Two vectors make a rotation",
  before: (
    <>
      <p>
        A rotation that a network can learn has to come from free numbers, because an optimiser
        moves numbers without asking whether they still form a rotation. <N is="edelta" /> takes two
        free vectors <M>u</M> and <M>v</M>, with one entry per stream, and makes a skew matrix of
        them. A skew matrix is the velocity of a rotation; Cayley’s formula turns it into the
        rotation itself, with one more free number <M>β</M> for how far:
      </p>
      <Formula tex="A = u v^{\mathsf T} - v u^{\mathsf T}," />
      <Formula tex="Q = \left(I + \tfrac{\beta}{2} A\right)^{-1} \left(I - \tfrac{\beta}{2} A\right)." />
      <p>
        <M>A</M> has just one magnitude, <M>μ</M>, the area of the parallelogram spanned by <M>u</M>{" "}
        and <M>v</M>, and it acts only in their plane, where <M>Q</M> turns by{" "}
        <M>θ = 2 atan(βμ/2)</M>. Drag <M>u</M> and <M>v</M>, then the end of the arc.
      </p>
    </>
  ),
  after: (
    <>
      <p>
        Line <M>u</M> up with <M>v</M>: the area is gone, <M>A</M> is exactly zero, and the operator
        is the identity, not something undefined. For all other vectors the inverse exists,{" "}
        <M>QᵀQ</M> is the identity and the determinant is 1. The arc moves easily at first and then
        hardly at all: <M>θ</M> gets as close to 180° as you like, but only as <M>β</M> grows
        without bound.
      </p>
      <p>
        “Orthogonal for every <M>β</M>” is a statement about exact numbers. A linear solve in
        float32 loses orthogonality in proportion to <M>β</M>. The closed form exploits the fact
        that <M>A</M> acts in a single plane, and does not.
      </p>
    </>
  ),
  claims: [
    {
      paper: "EΔ",
      claim: "Q is orthogonal for all β.",
      find: "It is in exact arithmetic, and in float32 by the closed form.",
      verdict: "exact form",
      by: "Cayley.FloatIsOrthogonalTo2e6OverAHundredThousandExtremeDraws",
    },
    {
      paper: "EΔ",
      claim: "The determinant of Q is +1.",
      verdict: "holds",
      by: "Cayley.DeterminantIsPlusOne",
    },
    {
      claim: "Parallel u and v give exactly the identity.",
      verdict: "holds",
      by: "Cayley.DegeneratePairsGiveExactlyTheIdentity",
    },
    {
      claim: "A³ = −μ²A: one plane and one magnitude are all there is.",
      verdict: "holds",
      by: "Cayley.GeneratorCubedIsMinusMuSquaredTimesItself",
    },
    {
      claim: "The angle is θ = 2 atan(βμ/2).",
      verdict: "holds",
      by: "Cayley.BetaMuEqualToTwiceTheTangentOfHalfAnAngleTurnsByThatAngle",
    },
  ],
  data: [],
};
