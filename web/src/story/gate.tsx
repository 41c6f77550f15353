import { F, Formula, type Story } from "./parts.tsx";

export const gate: Story = {
  title: "Rotation or reflection",
  before: (
    <>
      <p>EΔ does not choose between the two. It blends them with a gate γ that is learned:</p>
      <Formula tex="G = \gamma Q + (1 - \gamma) H, \qquad H = I - 2 k k^{\mathsf T}." />
      <p>
        Both ends are orthogonal. Blends of them are not: x goes to Qx and to Hx, and Gx is on the
        straight line between them, inside the circle. The papers call this approximately orthogonal
        and give a bound. There is no need for a bound, the defect is known exactly: 4γ(1 − γ), and
        the smallest singular value is |2γ − 1|. Drag γ along its curve; choose more streams, and
        the measured dots stay on the lines.
      </p>
    </>
  ),
  after: (
    <p>
      So the gate penalty of EΔ <em>is</em> its distance from orthogonality. At γ = ½, which the
      papers call the neutral gate and where their networks start, one direction is lost altogether;
      with Q = I it is the projection I − kkᵀ. G never lengthens a vector. How does training use it?
      On gyroscope EΔ was best <em>without</em> the penalty, with gates at ½:{" "}
      <F k="controls/gyroscope/edelta_free/best" /> against <F k="controls/gyroscope/edelta/best" />{" "}
      with it. On stability it was the other way round:{" "}
      <F k="controls/stability/edelta_free/best" /> without,{" "}
      <F k="controls/stability/edelta/best" /> with.
    </p>
  ),
  claims: [
    {
      claim: "the blend is approximately orthogonal: ‖GᵀG − I‖₂ = 4γ(1 − γ), exactly",
      verdict: "sharper",
      by: "Hybrid.OrthogonalityDefectIsFourGammaOneMinusGamma",
    },
    {
      claim: "σ_min = |2γ − 1|, and no singular value exceeds 1",
      verdict: "sharper",
      by: "Hybrid.SmallestSingularValueIsTwoGammaMinusOneAndNoneExceedsOne",
    },
    {
      claim: "γ = ½ is a neutral start: it is singular",
      verdict: "wrong",
      by: "Edelta.NeutralGateStartsAtASingularOperator",
    },
    {
      claim: "EΔ is better without its gate loss on gyroscope",
      verdict: "open",
      by: "results: claim/EΔ is better without its gate loss on gyroscope/verdict",
    },
  ],
  data: ["docs/results/results.json"],
};
