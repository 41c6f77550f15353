import { M, N, type Story } from "./parts.tsx";

export const drift: Story = {
  title: "The plain residual is hard to beat",
  before: (
    <>
      <p>
        A residual connection passes the state on unchanged and adds what the layer computed.
        Whatever replaces the identity may not pass it on. Here four streams of width eight go
        through a new operator in every layer, at first without a branch, so you see what the
        operators alone do to the norm.
      </p>
      <p>
        The lines are the <N is="additive" as="plain sum" />, an exact rotation, <N is="edelta" />{" "}
        with its gate at <M>γ = 0.9</M>, <N is="ddl" as="DDL" /> at <M>β = 1</M>, where it starts
        and where it is singular, <N is="mhc" /> and <N is="jpmhc" />. Random operators are the
        hardest test. Most of the papers start theirs next to the identity: the choice below the
        chart shows the difference.
      </p>
    </>
  ),
  after: (
    <>
      <p>
        The plain sum keeps the norm exactly, and so do rotations and reflections. A gate of{" "}
        <M>γ = 0.9</M> looks almost like a rotation and still loses most of the norm; a delta rule
        with <M>β = 1</M> forgets a direction in every layer. mHC stops at one half: of four equal
        streams only the mean survives, and its norm is <M>√(1/4)</M> of the whole.
      </p>
      <p>
        Now add the branch. A flat line for Cayley is flat for the <em>path</em> only. With <M>F</M>{" "}
        in it rotations, reflections and the plain residual drift together. An orthogonal operator
        preserves the norm of the state that it carries, but not that of the network.
      </p>
    </>
  ),
  claims: [
    {
      paper: "EΔ",
      claim: "Cayley keeps the norm at every depth.",
      find: "It keeps the norm of the path. With a branch every connection drifts.",
      verdict: "true of the path only",
      by: "Cayley.DoubleIsOrthogonalTo1e14OverAHundredThousandExtremeDraws",
    },
    {
      claim:
        "The blend never lengthens a vector: its squared length shrinks by γ(1 − γ)‖Qx − Hx‖².",
      verdict: "holds",
      by: "Hybrid.ShrinksByGammaOneMinusGammaTimesTheDisagreement",
    },
  ],
  data: ["docs/results/explorer.json"],
};
