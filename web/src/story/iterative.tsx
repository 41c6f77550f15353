import { Formula, M, N, type Story } from "./parts.tsx";

export const iterative: Story = {
  title: "Almost a rotation",
  before: (
    <>
      <p>
        <N is="jpmhc" /> does not solve for its Cayley rotation. It iterates, from{" "}
        <M>Y₀ = I + αW</M>, twice:
      </p>
      <Formula tex="Y \leftarrow I + \tfrac{\alpha}{2} W (I + Y), \qquad W = H - H^{\mathsf T}." />
      <p>
        The result is close to orthogonal if <M>αW</M> is small. In each plane the defect is a
        polynomial in that plane’s <M>m</M>, the size of <M>αW</M> there.
      </p>
    </>
  ),
  after: (
    <p>
      Two steps are hardly better than one: both defects grow with <M>m⁴</M>. Three are much better.
      And the polynomial has a second zero. If <M>m = 2</M> in every plane, two steps give <M>−I</M>{" "}
      exactly, the very map that the EΔ paper says JPmHC cannot make; from <M>Y₀ = I</M>, where that
      paper started its probe, they cannot. Beyond <M>m ≈ 1.63</M> the polynomial falls again, so
      the plane with the largest <M>m</M> need not be the worst.
    </p>
  ),
  claims: [
    {
      paper: "JPmHC",
      claim: "The iteration is orthogonal.",
      find: "Two steps miss by m⁴|4 − m²|/16 in a plane of size m.",
      verdict: "exact form",
      by: "IterativeCayley.DefectIsThePolynomialInMForOneTwoAndThreeSteps",
    },
    {
      claim: "One step is nearly as good as two; three are far better.",
      verdict: "holds",
      by: "IterativeCayley.OneStepIsAsGoodAsTwoAndThreeAreFarBetter",
    },
    {
      claim: "With m = 2 in every plane two steps give −I.",
      verdict: "holds",
      by: "IterativeCayley.TwiceAComplexStructureGivesMinusIdentityAtTwoSteps",
    },
  ],
  data: [],
};
