import { F, M, N, type Story } from "./parts.tsx";

export const missing: Story = {
  title: "The eigenvalue it never reaches",
  before: (
    <p>
      A half turn has the eigenvalue −1 twice. Cayley’s pair of eigenvalues walks along the unit
      circle towards it from both sides and never arrives. This gap is the reason why{" "}
      <N is="edelta" /> has a second operator, the Householder reflection, whose eigenvalue −1 is
      built in. With a strength <M>β</M> of its own, <M>I − βkkᵀ</M>, it is the delta rule of{" "}
      <N is="ddl" as="DDL" />. Drag the eigenvalues themselves.
    </p>
  ),
  after: (
    <>
      <p>
        The reflection’s eigenvalue is <M>1 − β</M>. It slides along the real axis: through 0 at{" "}
        <M>β = 1</M>, where the operator forgets the direction <M>k</M> altogether, to −1 at{" "}
        <M>β = 2</M>. It leaves the circle on the way.
      </p>
      <p>
        How much does the missing point cost? In its own plane, Cayley already reaches at{" "}
        <M>βμ = 14</M> the cosine that the EΔ paper reports for its reflecting operator,{" "}
        <F k="reflection_published/edelta/cosine" />. JPmHC’s approximate Cayley, started as its own
        paper says, gives <M>−I</M> exactly if <M>m = 2</M> in every plane (
        <a href="#iterative">“Almost a rotation”</a>). And one reflection flips one direction only:
        negating all <M>n</M> directions takes <M>n</M> reflections.
      </p>
      <p>
        What is possible need not be learned. In our probes JPmHC, started its own way, ends at a
        cosine of <F k="reflection/jpmhc_own/500/cosine" />, and EΔ at{" "}
        <F k="reflection/edelta/500/cosine" />: the starting weights are small, and <M>m = 2</M> is
        far from them.
      </p>
    </>
  ),
  claims: [
    {
      paper: "EΔ",
      claim: "Cayley never has the eigenvalue −1.",
      verdict: "holds",
      by: "Cayley.EigenvaluesAreTheRotationPairAndOnesNeverMinusOne",
    },
    {
      paper: "EΔ",
      claim: "Householder’s eigenvalue jumps at β = 2.",
      find: "It slides along the real axis: it is 1 − β.",
      verdict: "wrong",
      by: "DeltaOperator.ChangesTheSquaredNormOnlyAlongK",
    },
    {
      paper: "EΔ",
      claim: "JPmHC cannot negate.",
      find: "From its own start it does so exactly, if m = 2 in every plane.",
      verdict: "wrong",
      by: "IterativeCayley.TwiceAComplexStructureGivesMinusIdentityAtTwoSteps",
    },
  ],
  data: ["docs/results/results.json"],
};
