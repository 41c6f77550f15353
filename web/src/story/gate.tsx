import { F, Formula, M, N, type Story } from "./parts.tsx";

const Q = () => <b class="c-rotation">Q</b>;
const H = () => <b class="c-reflection">H</b>;

export const gate: Story = {
  title: "Rotation or reflection",
  before: (
    <>
      <p>
        <N is="edelta" /> does not choose between the rotation <Q /> and the reflection <H />. It
        blends them with a gate <b class="c-blend">γ</b> that is learned:
      </p>
      <Formula tex="G = \gamma Q + (1 - \gamma) H, \qquad H = I - 2 k k^{\mathsf T}." />
      <p>
        Both ends are orthogonal. Blends of them are not: <M>x</M> goes to <M>Qx</M> and to{" "}
        <M>Hx</M>, and <M>Gx</M> is on the straight line between them, inside the circle. The paper
        calls this approximately orthogonal and gives a bound. The defect is known exactly:{" "}
        <M>4γ(1 − γ)</M>, and the smallest singular value is <M>|2γ − 1|</M>. Drag <M>γ</M> along
        its curve.
      </p>
    </>
  ),
  after: (
    <p>
      So the gate penalty of EΔ <em>is</em> its distance from orthogonality. At <M>γ = ½</M>, which
      the paper calls the neutral gate, one direction is lost altogether. How does training use it?
      On gyroscope EΔ was best <em>without</em> the penalty, with gates at ½:{" "}
      <F k="controls/gyroscope/edelta_free/best" /> against <F k="controls/gyroscope/edelta/best" />{" "}
      with it. On stability it was the other way round:{" "}
      <F k="controls/stability/edelta_free/best" /> without,{" "}
      <F k="controls/stability/edelta/best" /> with.
    </p>
  ),
  claims: [
    {
      paper: "EΔ",
      claim: "The blend is approximately orthogonal.",
      find: "Its defect is ‖GᵀG − I‖₂ = 4γ(1 − γ), exactly.",
      verdict: "exact form",
      by: "Hybrid.OrthogonalityDefectIsFourGammaOneMinusGamma",
    },
    {
      claim: "The smallest singular value is |2γ − 1|, and none exceeds 1.",
      verdict: "exact form",
      by: "Hybrid.SmallestSingularValueIsTwoGammaMinusOneAndNoneExceedsOne",
    },
    {
      paper: "EΔ",
      claim: "γ = ½ is a neutral start.",
      find: "The operator is singular there.",
      verdict: "wrong",
      by: "Edelta.NeutralGateStartsAtASingularOperator",
    },
    {
      claim: "EΔ is better without its gate loss on gyroscope.",
      find: "Three seeds are too few to tell.",
      verdict: "open",
      by: "results: claim/EΔ is better without its gate loss on gyroscope/verdict",
    },
  ],
  data: ["docs/results/results.json"],
};
