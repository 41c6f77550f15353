// Before the first section and after the last: the page's purpose, how it was made, and its limits.
export const Opening = () => (
  <header class="opening">
    <p class="kicker">geores · explorer</p>
    <h1>What replaces x + F(x)?</h1>
    <p class="lead">
      A transformer adds the output of every layer to its residual stream: x + F(x). Several recent
      papers replace the identity by a rotation, a reflection or a mixing matrix. This page lets you
      move those operators, and shows which of the papers' claims hold.
    </p>
    <p>
      Nothing here is a recording. Every number comes from the C++ of geores, compiled to
      WebAssembly and running in this file, or from a results file of its repository. Three marks
      mean the same everywhere: <span class="figure published">published</span> by a paper,{" "}
      <span class="figure measured">measured</span> by us, and{" "}
      <span class="figure nomodel">no model</span>, a predictor that learns nothing or one matrix.
    </p>
    <p>
      Each section ends in claim lines: a claim, whether it <b>holds</b>, can be made <b>sharper</b>
      , is <b>wrong</b> or <b>open</b>, and the name of the test or results row that says so. The
      build fails if that name is gone from the sources.
    </p>
  </header>
);

export const Closing = ({ licences }: { licences: string }) => (
  <footer class="closing">
    <section aria-labelledby="made">
      <h2 id="made">How this page was made</h2>
      <p>
        The headers of <code>geores/manifold</code>, the model's forward pass of{" "}
        <code>geores/portable</code> and the theory of <code>geores/spectral</code> are compiled to
        WebAssembly by clang. The same modules drew the first state of every figure while the page
        was built, so it is readable without scripts. A test compares each module with the native
        build to twelve digits. The page makes no request, stores nothing and sends nothing; its
        policy forbids it.
      </p>
    </section>
    <section aria-labelledby="not-shown">
      <h2 id="not-shown">Limits</h2>
      <p>
        The page shows no model that needs its orthogonality: on the tasks where the operators
        preserve norms best, a predictor without a model wins. It shows no language models, and
        gradients only in some sections. Safari was not tested.
      </p>
    </section>
    <section aria-labelledby="sources">
      <h2 id="sources">Sources</h2>
      <ul>
        <li>EΔ-MHC-Geo: arXiv:2605.06729 (EΔ, its tasks and tables)</li>
        <li>JPmHC: arXiv:2602.18308 (iterative Cayley, Grassmann, permutations, spectra)</li>
        <li>sHC, with HC, mHC and mHC-lite: arXiv:2603.20896</li>
        <li>MGT (the delta rule of DDL as a residual connection)</li>
        <li>Colours: Okabe and Ito, darkened or lightened where contrast asks for it</li>
      </ul>
    </section>
    <details>
      <summary>Licences of the bundled code</summary>
      <pre tabIndex={0}>{licences}</pre>
    </details>
  </footer>
);
