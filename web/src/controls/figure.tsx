// The frame of every widget's drawing: caption, spoken sentence, controls, tools.
import type { ComponentChildren, VNode } from "preact";
import { useState } from "preact/hooks";
import type { Fields } from "../state/fields.ts";
import { linkTo } from "../state/link.ts";
import { useRested, type Widget } from "../state/widget.ts";
import { Choose, Slider } from "./controls.tsx";

export interface TableData {
  caption: string;
  head: readonly string[];
  rows: readonly (readonly (string | number)[])[];
}

export function Table({ table }: { table: TableData }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={table.caption}>
      <table>
        <caption>{table.caption}</caption>
        <thead>
          <tr>
            {table.head.map((cell) => (
              <th scope="col">{cell}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row) => (
            <tr>
              {row.map((cell, column) =>
                column === 0 ? <th scope="row">{cell}</th> : <td>{cell}</td>,
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

// Controls by the names of their fields, or as they are.
export type Listed<F extends Fields> = readonly ((keyof F & string) | VNode)[];

const Controls = <F extends Fields>({ widget, items }: { widget: Widget<F>; items: Listed<F> }) => (
  <div class="controls">
    {items.map((item) => {
      if (typeof item !== "string") return item;
      const Control = widget.fields[item]!.kind === "range" ? Slider : Choose;
      return <Control widget={widget} name={item as never} />;
    })}
  </div>
);

const icons = {
  reset: "M4 4v5h5M4.6 9A8 8 0 1 1 4 13",
  link: "M9 12h6M10 7H8a5 5 0 0 0 0 10h2M14 7h2a5 5 0 0 1 0 10h-2",
  table: "M3 5h18v14H3ZM3 10h18M9 5v14",
};

const Tool = (props: {
  icon: keyof typeof icons;
  name: string;
  open?: boolean;
  onClick: () => void;
}) => (
  <button
    type="button"
    class="tool"
    title={props.name}
    aria-expanded={props.open}
    onClick={props.onClick}
  >
    <svg viewBox="0 0 24 24" aria-hidden="true">
      <path d={icons[props.icon]} />
    </svg>
    <span class="vh">{props.name}</span>
  </button>
);

// Caption, the one action, the main picture with its controls; next to it the second picture and facts.
export function Figure<F extends Fields>(props: {
  widget: Widget<F>;
  caption: ComponentChildren;
  sentence: string; // for screen readers alone
  main: ComponentChildren; // the picture
  children?: ComponentChildren; // more pictures and facts
  controls?: Listed<F>;
  more?: Listed<F>;
  buttons?: ComponentChildren;
  refusal?: string;
  table: () => TableData | readonly TableData[];
}) {
  const { widget } = props;
  const [open, setOpen] = useState(false);
  const [link, setLink] = useState("");
  const spoken = useRested(props.sentence, 500);
  const copyLink = async () => {
    const text = linkTo(widget.id, widget.query);
    setLink((await copy(text)) ? "copied" : text);
  };
  const tables = open ? [props.table()].flat() : [];
  return (
    <figure class="widget" aria-labelledby={`${widget.id}-caption`}>
      <figcaption id={`${widget.id}-caption`}>{props.caption}</figcaption>
      <div class="tools">
        <Tool
          icon="reset"
          name="Reset"
          onClick={() => {
            widget.reset();
            setLink("");
          }}
        />
        <Tool icon="link" name="Copy link" onClick={() => void copyLink()} />
        <Tool
          icon="table"
          name={open ? "Hide table" : "Show as table"}
          open={open}
          onClick={() => setOpen(!open)}
        />
        {link === "copied" ? <span role="status">Copied.</span> : null}
      </div>
      {link && link !== "copied" ? (
        <input class="link" readonly value={link} aria-label="Link to this state" />
      ) : null}
      {props.buttons ? <div class="actions">{props.buttons}</div> : null}
      <div class={`drawings${props.refusal ? " stale" : ""}${props.children ? "" : " alone"}`}>
        <div class="stage">
          {props.main}
          {props.controls?.length ? <Controls widget={widget} items={props.controls} /> : null}
        </div>
        {props.children ? <div class="aside">{props.children}</div> : null}
      </div>
      <output class="vh" aria-live="polite">
        {spoken}
      </output>
      {props.refusal ? <p class="refusal">{props.refusal}</p> : null}
      {widget.notes.length ? (
        <p class="refusal" role="status">
          In the link: {widget.notes.join("; ")}.
        </p>
      ) : null}
      {props.more ? (
        <details class="more">
          <summary>More</summary>
          <Controls widget={widget} items={props.more} />
        </details>
      ) : null}
      {tables.map((table) => (
        <Table table={table} />
      ))}
    </figure>
  );
}
