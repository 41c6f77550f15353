import { Formula, type Story } from "./parts.tsx";

export const iterative: Story = {
  title: "Almost a rotation",
  before: (
    <>
      <p>JPmHC does not solve for its Cayley rotation. It iterates, from Y₀ = I + αW, twice:</p>
      <Formula tex="Y \leftarrow I + \tfrac{\alpha}{2} W (I + Y), \qquad W = H - H^{\mathsf T}." />
      <p>
        The result is close to orthogonal if αW is small. Its defect is a polynomial in m, the norm
        of αW, alone.
      </p>
    </>
  ),
  after: (
    <p>
      Two steps are hardly better than one: both defects grow with m⁴. Three are much better. And
      the polynomial has a second zero. At m = 2 two steps give −I exactly, the very map that the EΔ
      paper says JPmHC cannot make; from Y₀ = I, where that paper started its probe, they cannot.
    </p>
  ),
  claims: [
    {
      claim: "the iteration is orthogonal: to m⁴|4 − m²|/16 after two steps",
      verdict: "sharper",
      by: "IterativeCayley.DefectIsThePolynomialInMForOneTwoAndThreeSteps",
    },
    {
      claim: "one step is nearly as good as two, three are far better",
      verdict: "holds",
      by: "IterativeCayley.OneStepIsAsGoodAsTwoAndThreeAreFarBetter",
    },
    {
      claim: "at m = 2 two steps give −I",
      verdict: "holds",
      by: "IterativeCayley.TwiceAComplexStructureGivesMinusIdentityAtTwoSteps",
    },
  ],
  data: [],
};
