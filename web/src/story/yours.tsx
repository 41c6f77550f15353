import { type Story } from "./parts.tsx";

export const yours: Story = {
  title: "Your own run",
  before: (
    <p>
      Everything above is drawn from files that geores writes, so it can be drawn from yours. Open a
      run folder: curves and gates come from its metrics, orthogonality and spectra from an
      inspection, live predictions (in the section before the tables) from its weights. Several runs
      are overlaid. <code>geores explore --run DIR</code> writes this page with the runs already in
      it.
    </p>
  ),
  after: (
    <p>
      The files are read by this page and not uploaded. An invalid file is refused with the line and
      the key; a last line that was cut off is left out, with a note.
    </p>
  ),
  claims: [],
  data: [],
};
