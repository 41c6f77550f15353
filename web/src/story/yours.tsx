import { type Story } from "./parts.tsx";

export const yours: Story = {
  title: "Your own run",
  before: (
    <p>
      Open a run folder: curves and gates come from its metrics, orthogonality and spectra from an
      inspection, live predictions (in <a href="#predict">“You against the machine”</a>) from its
      weights. Several runs are overlaid. <code>geores explore --run DIR</code> writes this page
      with the runs already in it.
    </p>
  ),
  after: (
    <p>
      The files are read by this page and not uploaded. A malformed file is refused, with the line
      and field at fault; a last line that was cut off is left out, with a note.
    </p>
  ),
  claims: [],
  data: [],
};
