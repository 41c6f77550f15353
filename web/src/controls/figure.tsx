// The frame of every widget's drawing: caption, spoken sentence, controls, tools.
import type { ComponentChildren, VNode } from "preact";
import { useState } from "preact/hooks";
import type { Fields } from "../state/fields.ts";
import { linkTo } from "../state/link.ts";
import { useRested, type Widget } from "../state/widget.ts";
import { Button, Choose, Slider } from "./controls.tsx";

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

export function Figure<F extends Fields>(props: {
  widget: Widget<F>;
  caption: ComponentChildren;
  sentence: string; // the text of the <output>
  children: ComponentChildren; // the drawings
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
      <div class={props.refusal ? "drawings stale" : "drawings"}>{props.children}</div>
      <output class="sentence" aria-live="polite">
        {spoken}
      </output>
      {props.refusal ? <p class="refusal">{props.refusal}</p> : null}
      {widget.notes.length ? (
        <p class="refusal" role="status">
          In the link: {widget.notes.join("; ")}.
        </p>
      ) : null}
      {props.controls ? <Controls widget={widget} items={props.controls} /> : null}
      {props.more ? (
        <details class="more">
          <summary>More</summary>
          <Controls widget={widget} items={props.more} />
        </details>
      ) : null}
      {props.buttons ? <div class="tools">{props.buttons}</div> : null}
      <div class="tools">
        <Button
          onClick={() => {
            widget.reset();
            setLink("");
          }}
        >
          Reset
        </Button>
        <Button onClick={() => void copyLink()}>Copy link</Button>
        <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? "Hide table" : "Show as table"}
        </button>
        {link === "copied" ? (
          <span role="status">Copied.</span>
        ) : link ? (
          <input class="link" readonly value={link} aria-label="Link to this state" />
        ) : null}
      </div>
      {tables.map((table) => (
        <Table table={table} />
      ))}
    </figure>
  );
}
