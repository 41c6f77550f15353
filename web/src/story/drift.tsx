import { type Story } from "./parts.tsx";

export const drift: Story = {
  title: "The plain residual preserves no norm",
  before: (
    <p>
      A residual connection carries a state past every layer and adds what the layer computed. The
      identity preserves the state; an operator that replaces it may not. Here four streams of width
      eight pass through a new random operator in every layer, at first without a branch: the curves
      show the effect of the operators alone on the norm.
    </p>
  ),
  after: (
    <>
      <p>
        Without a branch only exact rotations and reflections stay at 1. A gate of γ = 0.9 looks
        almost like a rotation and still loses most of the norm; a delta rule with β = 1 forgets a
        direction in every layer; a projector forgets half of the streams.
      </p>
      <p>
        Now add the branch. A flat line for Cayley is flat for the <em>path</em> alone. With F in it
        rotations, reflections and the plain residual drift together. An orthogonal operator
        preserves the norm of the state that it carries, but not the norm of the network.
      </p>
    </>
  ),
  claims: [
    {
      claim:
        "Cayley keeps the norm at every depth: of the path; with a branch every strategy drifts",
      verdict: "sharper",
      by: "Cayley.DoubleIsOrthogonalTo1e14OverAHundredThousandExtremeDraws",
    },
    {
      claim: "the blend never lengthens a vector, it shrinks by γ(1 − γ)‖Qx − Hx‖²",
      verdict: "holds",
      by: "Hybrid.ShrinksByGammaOneMinusGammaTimesTheDisagreement",
    },
  ],
  data: [],
};
