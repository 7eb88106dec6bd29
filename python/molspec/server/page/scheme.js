// A route as chemists write it, in rows as wide as the page: what a step needs beside the product of
// the step before stands over its arrow. Shown where the tree of picture.js is wider than the page.

import { h, image, percent } from "./dom.js";
import { drawn } from "./draw.js";
import { picture } from "./picture.js";
import { offer } from "./routes.js";
import { partsOf, reactions } from "./work.js";

const STYLE = `
.scheme { font: 12px/1.3 system-ui, "Segoe UI", Roboto, sans-serif; text-align: center; }
.part, .arrow { break-inside: avoid; } .scheme svg { max-width: 100%; height: auto; margin: 0 auto; }
.chain, .over { display: flex; flex-wrap: wrap; align-items: center; justify-content: center; gap: .3rem; }
.chain { justify-content: flex-start; gap: .6rem .5rem; padding: .5rem 0; } .chain + .chain { border-top: 1px dashed; }
.part { max-width: 100%; } .part span { display: block; max-width: 9rem; margin: auto; overflow-wrap: anywhere; }
.part code { color: inherit; max-width: 14rem; } .scheme .sale { color: var(--good, #1a6b3c); font-size: inherit; } .scheme .lacked { color: var(--bad, #a3262a); }
.arrow { min-width: 6.5rem; max-width: 100%; } .arrow b, .arrow i { display: block; font-style: normal; }
.wide { display: flex; flex-wrap: wrap; gap: .25rem .75rem; align-items: center; } .wide button { min-height: 32px; padding: .15rem .6rem; font-size: .8rem; }
.scroll { overflow-x: auto; direction: rtl; } .forward .scroll { direction: ltr; } .scroll svg { direction: ltr; margin: 0 auto; }`;

const ARROW = '<svg xmlns="http://www.w3.org/2000/svg" width="92" height="12" stroke="currentColor" fill="currentColor"><path d="M1 6H84" stroke-width="1.3"/><path d="M91 6l-9 -4v8z" stroke="none"/></svg>';

/** Each figure shows its tree if it has room, otherwise its rows; on paper always what fits. */
const choice = (id, width) => `${STYLE}
#${id} { container-type: inline-size; }
@container (width >= ${width}px) { #${id} > .scheme, #${id} > .wide { display: none; } }
@container (width < ${width}px) { #${id}:not(.tree) :is(.scroll, .wide span), #${id}.tree > .scheme { display: none; } }
@media print { #${id} > .wide { display: none; } @container (width < ${width}px) { #${id} > .scroll { display: none; } #${id}.tree > .scheme { display: block; } } }`;

/** A molecule and what is said of it; without a drawing its SMILES. */
function part(svg, smiles, text, kind, step) {
  return h("div", { class: "part", "data-step": step }, image(svg) ?? h("code", {}, smiles), text ? h("span", { class: kind }, text) : null);
}

/** Molecules with a plus between each two. */
const sum = (parts) => parts.flatMap((each, index) => (index ? [h("span", {}, "+"), each] : [each]));

/** The steps in rows; one that uses the product of the step before goes on in its row. */
function scheme(route) {
  const chains = [];
  const makers = new Map(); // the number of the step that makes a molecule
  let before = []; // what the last step made
  for (const { step, answer, left, right, number } of reactions(route)) {
    const made = partsOf(right);
    if (made.every((smiles) => makers.get(smiles) === number)) continue; // made once for several uses
    const { queried, molecules } = drawn(step, answer);
    const [given, gives] = step.forward ? [queried, molecules] : [molecules, queried];
    const parts = partsOf(left);
    const on = parts.findIndex((smiles) => before.includes(smiles));
    const needed = parts.map((smiles, index) => {
      const { sale } = (step.forward ? null : answer.molecules[index]) ?? {};
      if (makers.has(smiles)) return part(given[index], smiles, `from step ${makers.get(smiles)}`);
      return part(given[index], smiles, sale === null ? "not in stock" : sale && (offer(sale) || "in stock"), sale === null ? "lacked" : "sale");
    }).filter((_, index) => index !== on);
    const arrow = h("div", { class: "arrow" }, on < 0 ? null : h("div", { class: "over" }, ...sum(needed)), h("b", { class: "step-number" }, `Step ${number}`), image(ARROW), h("i", {}, percent(answer.log_prob)));
    if (on < 0) chains.push(h("div", { class: "chain" }, ...sum(needed)));
    chains.at(-1).append(arrow, ...sum(made.map((smiles, index) => part(gives[index], smiles, "", "", step.id))));
    for (const smiles of made) makers.set(smiles, number);
    before = made;
  }
  return h("div", { class: "scheme" }, ...chains);
}

/** The parts of a figure of this id, which shows a route as a tree or in rows. */
export function overview(route, id, paper = false) {
  const whole = image(picture(route, paper));
  const style = h("style");
  style.textContent = choice(id, whole.getAttribute("width"));
  const turn = ({ target }) => target.closest("figure").classList.toggle("tree");
  const wide = h("p", { class: "wide" }, h("button", { type: "button", click: turn }, "Rows or tree"), h("span", {}, "The tree is wider than the page: scroll it sideways."));
  return [style, ...(paper ? [] : [wide]), h("div", { class: "scroll", tabindex: 0 }, whole), scheme(route)];
}
