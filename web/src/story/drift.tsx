import { type Story } from "./parts.tsx";

export const drift: Story = {
  title: "The plus sign keeps no promise",
  before: (
    <p>
      A residual connection carries a state past every layer and adds what the layer computed. The
      identity carries perfectly, but nothing says so for what is put in its pixel. Here four
      streams of width eight pass through a fresh random operator in every layer, without any branch
      at first: what you see is what the operators do to a norm by themselves.
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
        rotations, reflections and the plain sum drift together. An orthogonal operator keeps what
        it carries. It does not fix the norm of the network.
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
