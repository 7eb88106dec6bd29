// Files of what the page holds, named by the target.

import { h, percent } from "./dom.js";
import { allDrawn } from "./draw.js";
import { picture } from "./picture.js";
import { factsView } from "./routes.js";
import { overview } from "./scheme.js";
import { server } from "./server.js";
import { reactions, root, work, written } from "./work.js";

/** Characters that file names may not have on some system. */
const UNNAMED = /[^\w()\[\]=+@.,-]+/g;
const MOST_LETTERS = 80;

const named = () => root().smiles.replace(UNNAMED, "_").slice(0, MOST_LETTERS);

/** What is bought, in one order: SMILES, how many molecules, their names and their prices. */
const bought = (sold) => [sold.map((each) => each.smiles).join("."), sold.length, ...["name", "price"].map((field) => sold.map(({ sale }) => sale[field]).join("; "))];

/** A row a reaction; a spreadsheet runs no cell, as none of SMILES or numbers is a formula. */
function table() {
  const cell = (value) => `"${String(value).replaceAll('"', '""')}"`;
  const rows = work.routes.flatMap((route, index) => reactions(route).map(({ step, answer, left, right, number }) => [
    index + 1, number, left, right, step.model, Math.exp(answer.log_prob).toFixed(4), answer.check == null ? "" : Math.exp(answer.check).toFixed(4),
    ...bought(answer.molecules.filter((each) => each.sale)),
  ]));
  return [["route", "step", "reactants", "product", "model", "probability", "forward_check", "for_sale", "count", "names", "prices"], ...rows].map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

const reactionSmiles = () => reactions(root()).map(({ left, right }) => `${left}${left.includes(">") ? ">" : ">>"}${right}\n`).join("");

async function bitmap() {
  const shown = new Image();
  shown.src = URL.createObjectURL(new Blob([picture(root(), true)], { type: "image/svg+xml" }));
  await shown.decode();
  const canvas = h("canvas", { width: 2 * shown.width, height: 2 * shown.height });
  canvas.getContext("2d").drawImage(shown, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(shown.src);
  return new Promise((made) => canvas.toBlob(made, "image/png"));
}

// ---- One file that needs no server

const STYLE = `
body { margin: 0 auto; max-width: 100rem; padding: 1.5rem; color: #1c2530; background: #fff; font: 15px/1.5 system-ui, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.4rem; margin: 0 0 .3rem; overflow-wrap: anywhere; } h2 { font-size: 1.15rem; margin: 0 0 .6rem; }
section { margin-top: 1.5rem; padding-top: 1.2rem; border-top: 1px solid #d5dde5; }
figure { margin: 1rem 0; } svg { display: block; }
code { font: .8rem/1.4 ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .2rem 1rem; margin: 0; } dt, footer { color: #5c6b7a; } dd { margin: 0; }
ul { margin: 0; padding: 0; list-style: none; display: flex; flex-wrap: wrap; gap: .3rem .8rem; } li { max-width: min(100%, 14rem); } li svg { max-width: 100%; height: auto; } li span { color: #1a6b3c; display: block; } .lacked code { color: #a3262a; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; vertical-align: top; padding: .35rem .8rem .35rem 0; border-top: 1px solid #d5dde5; }
th { font-weight: 600; } td.number { white-space: nowrap; font-variant-numeric: tabular-nums; }
dd:has(ul) { grid-column: 1 / -1; }
@media (max-width: 46rem) {
  body { padding: .5rem; } thead { display: none; } table, tbody, tr, td { display: block; }
  td { border: 0; padding: .15rem 0; } tr { border-top: 1px solid #d5dde5; padding: .3rem 0; } td:not(:empty)::before { content: attr(data-name) " "; color: #5c6b7a; }
}
@media print { body { padding: 0; } section + section { break-before: page; } tr, li { break-inside: avoid; } }`;

function steps(route) {
  const names = ["Step", "Reactants", "Product", "Probability", "Forward check", ""];
  const row = ({ number, left, right, answer }) => {
    const marks = [["racemic or unspecified", answer.racemic], ["of another configuration", answer.turned], ["first answer of the forward check", answer.gives && [`${answer.gives.smiles}, ${percent(answer.gives.log_prob)}`]]];
    const notes = [answer.note, ...marks.filter(([, each]) => each?.length).map(([name, each]) => `${name}: ${each.join(", ")}`)].filter(Boolean);
    const cells = [`${number}`, h("code", {}, left), h("code", {}, right), percent(answer.log_prob), answer.check == null ? "" : percent(answer.check), notes.join("; ")];
    return h("tr", {}, ...cells.map((each, index) => h("td", { class: [0, 3, 4].includes(index) && "number", "data-name": names[index] }, each)));
  };
  return h("table", {}, h("thead", {}, h("tr", {}, ...names.map((name) => h("th", {}, name)))), h("tbody", {}, ...reactions(route).map(row)));
}

const OPENED = "molspec-routes";

/** A page without scripts; the page of a server opens it as well. */
function page() {
  const title = root().smiles;
  const section = (route, index) => h(
    "section", {}, h("h2", {}, work.routes.length > 1 ? `Route ${index + 1}` : "Route"), route.note ? h("p", {}, route.note) : null,
    factsView(route), h("figure", { id: `route-${index + 1}`, class: route.forward ? "forward" : "" }, ...overview(route, `route-${index + 1}`, true)), steps(route),
  );
  const data = h("script", { type: "application/json", id: OPENED });
  data.textContent = JSON.stringify(written()).replaceAll("<", "\\u003c");
  const models = [...new Set(work.routes.flatMap((route) => reactions(route).map(({ step }) => step.model)))].join(", ");
  const body = h(
    "body", {}, h("h1", {}, title), ...work.routes.map(section),
    h("footer", {}, h("p", {}, "A percentage is the probability that the model gives to an answer, not that the reaction works. The forward check is the probability that the model of products gives the product from these reactants alone. No reagents, conditions or by-products are shown: no model here knows them."),
      h("p", {}, `Predicted by molspec ${server.version}, ${models}, saved on ${new Date().toISOString().slice(0, 10)}.`)),
    data,
  );
  const head = h("head", {}, h("meta", { charset: "utf-8" }), h("meta", { name: "viewport", content: "width=device-width, initial-scale=1" }),
    h("meta", { "http-equiv": "Content-Security-Policy", content: "default-src 'none'; style-src 'unsafe-inline'" }), h("title", {}, title), h("style", {}, STYLE));
  return `<!DOCTYPE html>\n${h("html", { lang: "en" }, head, body).outerHTML}\n`;
}

const FORMS = {
  html: ["text/html", page],
  json: ["application/json", () => `${JSON.stringify(written(), null, 1)}\n`],
  rsmi: ["text/plain", reactionSmiles],
  csv: ["text/csv", table],
  svg: ["image/svg+xml", () => picture(root(), true)],
  png: ["image/png", bitmap],
};

/** Save what the page holds, once all is drawn. */
export async function save(form) {
  const [type, make] = FORMS[form];
  work.routes.forEach((route) => picture(route)); // asks for what is not drawn yet
  await allDrawn();
  const url = URL.createObjectURL(new Blob([await make()], { type }));
  h("a", { href: url, download: `${named()}.${form}` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** The routes of a file that was saved as HTML or JSON. Throws for others. */
export async function opened(file) {
  const text = await file.text();
  if (!text.trimStart().startsWith("<")) return JSON.parse(text);
  return JSON.parse(new DOMParser().parseFromString(text, "text/html").getElementById(OPENED).textContent);
}
