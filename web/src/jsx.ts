// What the page's JSX is made of (build.mjs).
export { Fragment, h } from "preact";
