// The JSX runtime of the page (build.mjs).
export { Fragment, h } from "preact";
