import { F, type Story } from "./parts.tsx";

export const trap: Story = {
  title: "The effect of the gate loss",
  before: (
    <p>
      The penalty λ·4γ(1 − γ) is added to the loss so that the gate decides. Its slope is what
      training follows: −d/dγ 4γ(1 − γ) = 8γ − 4, which is negative below ½ and positive above.
      Descent moves γ <em>away</em> from the middle, to whichever side it happens to be on. (The
      paper's Figure 2 draws the arrows the other way.) Move the ball, or try the buttons.
    </p>
  ),
  after: (
    <>
      <p>
        Exactly on the ridge the gate never moves; a millionth away from it AdamW carries it all the
        way. A task can shift the watershed, to ½ + t/(8λ), and only a slope of 4λ or more removes
        it. So a gate that ends near 0 or 1 shows where it started rather than the task's
        preference.
      </p>
      <p>
        The paper reads γ → <F k="reflection_published/edelta/gate" /> as the gate selecting the
        reflection. Without any task, the same loss takes the same gate of a whole operator to{" "}
        <F k="reflection/edelta_idle/500/gamma" />. The preset “the probe without a task” is the
        same experiment with a single logit.
      </p>
    </>
  ),
  claims: [
    {
      claim: "the gate loss pushes γ towards ½, or towards 1: it pushes away from ½",
      verdict: "wrong",
      by: "GatePenalty.DescentMovesTheGateAwayFromOneHalf",
    },
    {
      claim: "a zero slope at ½ is a ridge, not a valley",
      verdict: "sharper",
      by: "GatePenalty.HasNoSlopeAtOneHalf",
    },
    {
      claim: "the gate selects the reflection: the gate loss alone does it",
      verdict: "wrong",
      by: "Reflection.TheGateLossAloneClosesTheGate",
    },
  ],
  data: ["docs/results/results.json"],
};
