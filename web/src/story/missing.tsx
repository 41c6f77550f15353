import { F, type Story } from "./parts.tsx";

export const missing: Story = {
  title: "The eigenvalue it never reaches",
  before: (
    <p>
      A half turn has the eigenvalue −1 twice. Cayley's pair of eigenvalues walks along the unit
      circle towards it from both sides and never arrives. This gap is the reason why EΔ has a
      second operator, the Householder reflection, whose eigenvalue −1 is built in. With a strength
      β of its own, I − βkkᵀ, it is the delta rule of DDL. Drag the eigenvalues themselves.
    </p>
  ),
  after: (
    <>
      <p>
        The reflection's eigenvalue is 1 − β. It slides along the real axis: through 0 at β = 1,
        where the operator forgets the direction k altogether, to −1 at β = 2. It leaves the circle
        on the way, and its determinant is 1 − β, which is −1 only at the end.
      </p>
      <p>
        How much does the missing point cost? In its own plane Cayley reaches at βμ = 14 already the
        cosine with −x that the EΔ paper reports for its reflecting operator,{" "}
        <F k="reflection_published/edelta/cosine" />. JPmHC's approximate Cayley, started as its own
        paper says, gives −I exactly at m = 2 (section <a href="#iterative">“Almost a rotation”</a>
        ). And one reflection flips one direction only: to negate everything a network needs as many
        as it has dimensions. In our probes JPmHC started its own way gets to{" "}
        <F k="reflection/jpmhc_own/500/cosine" />, from Y₀ = I to{" "}
        <F k="reflection/jpmhc/500/cosine" />, DDL to <F k="reflection/ddl/500/cosine" />, EΔ to{" "}
        <F k="reflection/edelta/500/cosine" />.
      </p>
    </>
  ),
  claims: [
    {
      claim: "Cayley never has the eigenvalue −1",
      verdict: "holds",
      by: "Cayley.EigenvaluesAreTheRotationPairAndOnesNeverMinusOne",
    },
    {
      claim: "Householder's eigenvalue jumps at β = 2: it slides, 1 − β",
      verdict: "wrong",
      by: "DeltaOperator.ChangesTheSquaredNormOnlyAlongK",
    },
    {
      claim: "JPmHC cannot negate: from its own start it can, exactly",
      verdict: "wrong",
      by: "IterativeCayley.TwiceAComplexStructureGivesMinusIdentityAtTwoSteps",
    },
  ],
  data: ["docs/results/results.json"],
};
