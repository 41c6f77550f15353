import { F, M, type Story } from "./parts.tsx";

export const trap: Story = {
  title: "What the gate loss does",
  before: (
    <p>
      The penalty <M>λ·4γ(1 − γ)</M> is added to the loss so that the gate decides. Descent follows{" "}
      <M>−4λ(1 − 2γ)</M>, which is negative below ½ and positive above: it moves <M>γ</M>{" "}
      <em>away</em> from the middle, to whichever side it happens to be on. The paper’s Figure 2
      draws the arrows the other way. Pick up the start, put it down somewhere, and let it roll.
    </p>
  ),
  after: (
    <>
      <p>
        Exactly on the ridge nothing ever moves. Start one millionth to the side, and AdamW takes
        the gate to 0.92 in 2000 steps. A task can shift the watershed, to <M>½ + t/(8λ)</M>, and
        only a slope of <M>4λ</M> or more removes it. So a gate that ends near 0 or 1 cannot tell
        you which of the two moved it: its start or the task.
      </p>
      <p>
        The paper reads <M>γ →</M> <F k="reflection_published/edelta/gate" /> as the gate selecting
        the reflection. Without any task, the same loss takes the same gate of a whole operator to{" "}
        <F k="reflection/edelta_idle/500/gamma" />. The button “the paper’s probe, no task” is the
        same experiment with a single logit.
      </p>
    </>
  ),
  claims: [
    {
      paper: "EΔ",
      claim: "The gate loss draws γ towards ½, or towards 1.",
      find: "It moves γ away from ½, to either side.",
      verdict: "wrong",
      by: "GatePenalty.DescentMovesTheGateAwayFromOneHalf",
    },
    {
      claim: "A zero slope at ½ is a ridge, not a valley.",
      verdict: "exact form",
      by: "GatePenalty.HasNoSlopeAtOneHalf",
    },
    {
      paper: "EΔ",
      claim: "The gate selects the reflection.",
      find: "The gate loss alone, without a task, closes it as far.",
      verdict: "wrong",
      by: "Reflection.TheGateLossAloneClosesTheGate",
    },
  ],
  data: ["docs/results/results.json"],
};
