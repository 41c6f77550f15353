import { N, type Story } from "./parts.tsx";

export const predict: Story = {
  title: "You against the machine",
  before: (
    <p>
      Two small transformers run in this page: <N is="edelta" />, without its gate loss, and GPT.
      They were trained on the gyroscope task: a point in sixteen dimensions is turned step after
      step, always by the same angle and in the plane of the same two coordinate axes; predict where
      it is next. Guess first, then see the models.
    </p>
  ),
  after: (
    <>
      <p>
        Both models learn the turn from the states that they are given, and both beat the running
        mean. Neither beats a rule of two lines: see which two coordinates changed between the last
        two states, and by what angle, and turn again. From the second state on that rule is exact,
        because the plane is one of two axes.
      </p>
      <p>
        Which of the two is better? On wide circles like these EΔ is ahead, as the means over 200
        turns show. On the task’s own data, where most circles are narrow, GPT is. A single path
        says little: either may win. Fed their own predictions, both drift away.
      </p>
      <p>
        Why this task? On the tasks where orthogonal operators do best, trivial predictors do better
        still. Gyroscope is the only task of the paper that needs a model. A run of your own, opened
        in the last section, is drawn here too if it was trained on vectors like these.
      </p>
    </>
  ),
  claims: [
    {
      claim: "Two states determine a turn in a plane of two axes.",
      verdict: "holds",
      by: "Predictors.TwoStatesDetermineAPlaneRotation",
    },
    {
      claim: "Both models here have the error that their files state.",
      verdict: "holds",
      by: "PageModel.HasTheErrorThatItsMetadataStates",
    },
    {
      claim: "For every connection the page computes what LibTorch computes.",
      verdict: "holds",
      by: "PortableModel.EveryConnectionAgreesWithLibTorch",
    },
  ],
  data: [],
};
