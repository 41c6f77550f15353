// Before the first section and after the last: what the page is about, how to read it, its sources and limits.
import { compute } from "../engine/engine.ts";
import { connections } from "../widgets/streams/state.ts";
import { M, names, paperLink, papers } from "./parts.tsx";

// A connection's matrix of four streams as a picture: the darker, the larger; orange is positive.
function Icon({ bench }: { bench: string }) {
  const values = bench
    ? compute("operators", "bench", {
        connection: Object.keys(connections).indexOf(bench),
        n: 4,
        scale: 1,
        initial: 0,
        seed: 3,
        iterations: 20,
        layers: 1,
        given: 0,
        trained: Array<number>(384).fill(0),
      }).h
    : Array.from({ length: 16 }, (_, i) => (i % 5 === 0 ? 1 : 0));
  return (
    <svg viewBox="0 0 40 40" class="icon" aria-hidden="true">
      {Array.from({ length: 16 }, (_, i) => {
        const value = values[i]!;
        const step = Math.min(4, Math.ceil(Math.abs(value) * 4 - 0.2));
        return (
          <rect
            class={`shade ${value < 0 ? "minus" : "plus"}-${step}`}
            x={10 * (i % 4) + 0.5}
            y={10 * Math.floor(i / 4) + 0.5}
            width="9"
            height="9"
          />
        );
      })}
    </svg>
  );
}

const Block = () => (
  <figure class="block-drawing">
    <svg
      viewBox="0 0 560 190"
      role="img"
      aria-label="A block: the state x runs along the path through an operator to a sum; the branch takes x through F and adds its result."
    >
      <path class="block-path" d="M20 140H238M322 140H438M462 140H540" />
      <path class="block-tip" d="M540 140l-11 -6v12Z" />
      <path class="block-branch" d="M110 140V60H228M332 60H450V128" />
      <path class="block-tip branch" d="M450 128l-6 -11h12Z" />
      <circle class="block-dot" cx="110" cy="140" r="4" />
      <rect class="block-box operator" x="238" y="114" width="84" height="52" rx="8" />
      <rect class="block-box" x="228" y="36" width="104" height="48" rx="8" />
      <circle class="block-box" cx="450" cy="140" r="13" />
      <path class="block-sign" d="M444 140h12M450 134v12" />
      <text class="block-math" x="30" y="130">
        x
      </text>
      <text class="block-math" x="280" y="146" text-anchor="middle">
        G
      </text>
      <text class="block-math" x="280" y="66" text-anchor="middle">
        F
      </text>
      <text class="block-math" x="474" y="130">
        Gx + F(x)
      </text>
      <text x="120" y="52">
        the branch
      </text>
      <text x="26" y="164">
        the path
      </text>
      <text x="280" y="184" text-anchor="middle">
        the operator: I in a plain residual
      </text>
    </svg>
  </figure>
);

export const Opening = () => (
  <header class="opening">
    <p class="kicker">geores · explorer</p>
    <h1>What replaces x + F(x)?</h1>
    <p class="lead">
      Every transformer is built on one addition: <M>x + F(x)</M>. At least seven recent papers
      replace it with rotations, reflections and mixing matrices, and report gains. We rebuilt all
      of them.
    </p>
  </header>
);

// Below the film strip.
export const Guide = () => (
  <>
    <div class="prose">
      <p>
        Turn each operator by hand and see its guarantees, their limits, and why, in our tests, the
        gains come from somewhere else.
      </p>
      <details class="how-to">
        <summary>How to read this page</summary>
        <p>
          The C++ of geores runs in this file, compiled to WebAssembly. The tables, the starts, the
          seeds and the last table show measurements from files of its repository. A number is{" "}
          <span class="figure published">published</span> by a paper,{" "}
          <span class="figure measured">measured</span> by us, or that of a{" "}
          <span class="figure nomodel">trivial predictor</span>, which learns nothing or one matrix.
        </p>
        <p>
          Each section ends with the papers' claims and our verdict on each, with the test behind
          it. The build fails if that test is gone from the sources. A tinted number in a caption
          can be dragged.
        </p>
      </details>
      <h2 class="small-title" id="names">
        Names
      </h2>
      <p>
        A block carries a state <M>x</M> along its <em>path</em> and adds what its <em>branch</em>{" "}
        <M>F</M>, attention or a perceptron, computes from it. The papers put an <em>operator</em>{" "}
        on the path. Most of them also cut the state into <em>streams</em> that the operator mixes.
      </p>
      <Block />
    </div>
    <ul class="names" aria-labelledby="names">
      {Object.values(names).map(({ name, bench, line }) => (
        <li>
          <Icon bench={bench} />
          <span>
            <b>{name}</b> {line}
          </span>
        </li>
      ))}
    </ul>
    {Object.entries(names).map(([id, { name, bench, line }]) => (
      <div class="popover" id={`name-${id}`} {...{ popover: "auto" }}>
        <Icon bench={bench} />
        <p>
          <b>{name}.</b> {line}
        </p>
      </div>
    ))}
  </>
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
        The page shows no model that needs orthogonality, because on the tasks where it might matter
        a trivial predictor wins. Language models appear only as trained mixers and as results;
        gradients appear only where a section says so. The page has not been tested in Safari.
      </p>
    </section>
    <section aria-labelledby="sources">
      <h2 id="sources">Sources</h2>
      <ul>
        {Object.entries(papers).map(([id, { name, arxiv }]) => (
          <li>
            {paperLink(id)}: {name}
            {arxiv ? ` (arXiv:${arxiv})` : ""}
          </li>
        ))}
        <li>Colours: Okabe and Ito, darkened or lightened where contrast asks for it</li>
        <li>Type: Linux Libertine, by Philipp H. Poll</li>
      </ul>
    </section>
    <details>
      <summary>Licences of the bundled code and type</summary>
      <pre tabIndex={0}>{licences}</pre>
    </details>
  </footer>
);
