// A step and its answers; below it the steps of the chosen answer's molecules.

import { copy, h, image, percent } from "./dom.js";
import { drawn } from "./draw.js";
import { offer } from "./routes.js";
import { labelled, models } from "./server.js";
import { steerBy } from "./steer.js";
import { changed, chosenOf, partsOf, remember, root, targetOf } from "./work.js";

/** numbers: of the route's steps, by step. predictNext: what a click on a molecule does. */
export function stepView(step, numbers, predictNext) {
  const chosen = chosenOf(step);
  const queried = h("figure", { class: "query" });
  const point = (answer) => {
    const drawings = answer?.canonical ? drawn(step, answer).queried : [];
    queried.replaceChildren(h("div", { class: "molecules" }, ...drawings.map(image).filter(Boolean)), h("code", {}, step.smiles));
  };
  point(chosen);
  const shown = (step.answers ?? []).filter((answer) => step.open || answer === chosen);
  const hidden = (step.answers?.length ?? 0) - shown.length;
  const reopen = () => {
    step.open = true;
    changed();
  };
  const hasTask = !models.has(step.model) || models.get(step.model).task;
  const what = !hasTask ? "What the model answers" : step.forward ? (partsOf(step.smiles).length > 1 ? "What these molecules give" : "What this molecule gives on its own") : step === root() ? "How to make the target" : "How to make this reactant";
  const number = numbers.get(step);
  const canSteer = root()?.planned;
  const view = h(
    "section",
    { class: "step", "aria-labelledby": step.id },
    h("h3", { id: step.id, tabindex: -1, "data-name": step.id }, number ? `Step ${number}: ` : null, what, h("small", {}, ` as ${step.model} predicts`)),
    canSteer && step !== root() ? h("button", { type: "button", class: "steer", "data-name": `buy ${step.id}`, click: () => steerBy("buy", step.smiles) }, "Buy this instead: plan again") : null,
    step.error ? h("p", { class: "error", role: "alert" }, labelled(step.error, "v1/predict")) : null,
    step.note && step !== root() ? h("p", { class: "note" }, step.note) : null,
    queried,
    step.answers || step.error
      ? h("ol", { class: "answers" }, ...shown.map((answer) => answerView(step, answer, point, predictNext)))
      : h("p", { class: "waiting" }, "Predicting …"),
    hidden ? h("button", { type: "button", class: "more", "data-name": `more ${step.id}`, click: reopen }, `${hidden} other ${hidden === 1 ? "answer" : "answers"}`) : null,
  );
  const expanded = (chosen?.molecules ?? []).filter((molecule) => molecule.step);
  if (!expanded.length) return view;
  return h("div", {}, view, h("div", { class: "children" }, ...expanded.map((molecule) => stepView(molecule.step, numbers, predictNext))));
}

function answerView(step, answer, point, predictNext) {
  const rank = step.answers.indexOf(answer);
  const isChosen = rank === step.chosen;
  const text = answer.canonical ?? answer.smiles;
  const choose = () => {
    remember();
    step.chosen = rank;
    changed();
  };
  const name = `${step.id} ${rank}`;
  const drawings = answer.canonical === null ? [] : drawn(step, answer).molecules;
  return h(
    "li",
    { class: isChosen ? "answer chosen" : "answer", pointerenter: () => point(answer), focusin: () => point(answer), pointerleave: () => point(chosenOf(step)) },
    h(
      "div",
      { class: "share" },
      h("b", {}, `${rank + 1}.  ${percent(answer.log_prob)}`),
      h("button", { type: "button", "data-name": `copy ${name}`, title: "Copy SMILES", click: (event) => copy(text, event.target) }, "Copy"),
      root()?.planned && isChosen && answer.canonical ? h("button", { type: "button", "data-name": `forbid ${name}`, title: "Plan again without this step", click: () => steerBy("forbid", `${answer.canonical}>>${targetOf(step)}`) }, "Forbid") : null,
      h("button", { type: "button", "data-name": `choose ${name}`, "aria-pressed": String(isChosen), click: choose }, isChosen ? "In the route" : "Use in route"),
    ),
    h("div", { class: "track" }, h("i", { style: `width:${percent(answer.log_prob).replace(" ", "")}` })),
    answer.canonical === null
      ? h("p", { class: "error" }, answer.finished ? "not a molecule to RDKit" : "unfinished")
      : h("div", { class: "molecules" }, ...answer.molecules.map((molecule, index) => moleculeView(molecule, drawings[index], `${name} ${index}`, () => predictNext(step, answer, molecule)))),
    h("code", {}, text),
    answer.note ? h("p", { class: "note" }, answer.note) : null,
    answer.check == null ? null : h("p", { class: "check" }, `Forward check: ${among(answer)}${percent(answer.check)}`),
    answer.racemic?.length ? h("p", { class: "check" }, `Racemic or unspecified: ${answer.racemic.join(", ")}`) : null,
    answer.turned?.length ? h("p", { class: "check" }, `Of another configuration than the product: ${answer.turned.join(", ")}`) : null,
    answer.gives ? h("p", { class: "check" }, `First answer instead: ${percent(answer.gives.log_prob)}`, h("code", {}, answer.gives.smiles)) : null,
  );
}

/** Where the product is among a model of products' answers, unless it is the first. */
function among({ confirmed, gives }) {
  if (!gives) return "";
  return confirmed == null ? "not the first answer, " : confirmed ? "not first, but among the three likeliest, " : "not among the three likeliest, ";
}

function moleculeView(molecule, svg, name, click) {
  const sale = molecule.sale && ["in stock", offer(molecule.sale)].filter(Boolean).join(": ");
  const label = `Predict from ${molecule.smiles}`;
  return h(
    "button",
    { type: "button", class: molecule.step ? "molecule expanded" : "molecule", "data-name": name, "aria-label": [label, sale].filter(Boolean).join(", "), title: label, click },
    image(svg) ?? h("code", {}, molecule.smiles),
    sale ? h("small", { class: "sale" }, sale) : null,
  );
}
