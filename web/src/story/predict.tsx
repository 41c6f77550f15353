import { type Story } from "./parts.tsx";

export const predict: Story = {
  title: "A model, live",
  before: (
    <p>
      Two small transformers run in this page: EΔ without its gate loss and with a pool that sees
      only the past, and GPT. They were trained on the gyroscope task: a point of the unit sphere in
      sixteen dimensions is turned by an unknown angle in an unknown plane, step after step; predict
      the next state. Drag the start, drag the state after it, show more or fewer states.
    </p>
  ),
  after: (
    <>
      <p>
        Both learn the turn from the given states, and both beat the running mean. Neither beats a
        rule of two lines: see which coordinates changed between the last two states and by what
        angle, and turn again. From the second state on that rule is exact. Over many paths GPT is
        the better of the two models at this size; on a single path either may win. Fed their own
        predictions, both drift away.
      </p>
      <p>
        Why this task? On the tasks where orthogonal operators do best, predictors without a model
        do better still. Gyroscope is the only task that needs a model.
      </p>
      <p>
        A run of your own, opened in the last section, is drawn here too if it was trained on
        vectors like these, whatever connection of geores it has.
      </p>
    </>
  ),
  claims: [
    {
      claim: "two states determine a turn in a plane of two axes",
      verdict: "holds",
      by: "Predictors.TwoStatesDetermineAPlaneRotation",
    },
    {
      claim: "both models here have the error that their files state",
      verdict: "holds",
      by: "PageModel.HasTheErrorThatItsMetadataStates",
    },
    {
      claim: "for every connection the page computes what LibTorch computes",
      verdict: "holds",
      by: "PortableModel.EveryConnectionAgreesWithLibTorch",
    },
  ],
  data: [],
};
