// What the page holds: routes, one of which is shown, and what was before, for undo.
//
// A route is its first step. A step is one molecule, or several, and the answers for it:
// { smiles, model, forward, answers, chosen, error, note, planned, asked, others, above }. asked: how
// a planned target was spelt; others: planned routes of the same disconnections; above: the step that
// it goes on from. An answer has its molecules, { smiles, sale, step }, each of which may have a step
// of its own. The steps of chosen answers are the route. sale: { name, price, bought } if it is for sale, null if not, undefined if nobody knows.

import { $ } from "./dom.js";
import { models } from "./server.js";

export const work = { routes: [], shown: 0, past: [] };
let numbered = 0; // steps, for their names in the document
let listener = () => {};

export const onChange = (function_) => (listener = function_);
/** Say that something is to be shown anew. */
export const changed = () => listener();

export const root = () => work.routes[work.shown] ?? null;
export const chosenOf = (step) => step.answers?.[step.chosen];
/** What was decoded for a step's molecule, as the note says: of a salt a part, of a racemate a form. */
export const targetOf = (step) => /^decoded as (\S+),/.exec(step.note)?.[1] ?? step.smiles;
export const productOf = (step) => (step.forward ? chosenOf(step)?.canonical ?? step.smiles : targetOf(step));
export const partsOf = (smiles) => smiles.split(" ")[0].split(/[.>]+/).filter(Boolean);

export const newStep = (smiles, model, count) => ({
  id: `step-${++numbered}`, smiles, model, count, forward: models.get(model)?.task === "product",
  answers: null, chosen: 0, open: true, error: "", note: "", asked: "", others: [],
});

/** An answer of the server. */
export const newAnswer = (prediction) => ({
  smiles: prediction.smiles, canonical: prediction.canonical, log_prob: prediction.log_prob, finished: prediction.finished, note: prediction.note ?? "",
  molecules: partsOf(prediction.canonical ?? "").map((smiles) => ({ smiles, step: null })),
});

/** Show an alternative of a planned route in its place, and count the route as one of them. */
export function swap(route, index) {
  remember();
  const { others, asked, note } = route;
  const kept = others.filter((_, at) => at !== index);
  const other = revive({ ...others[index], others: [...kept, plain({ ...route, others: [] })], asked, note });
  work.routes[work.routes.indexOf(route)] = other;
  changed();
}

/** The reactions of a route, { step, answer, left, right, number }, in the order of the laboratory. */
export function reactions(step) {
  const found = [];
  const add = (each) => {
    const answer = chosenOf(each);
    if (!answer?.canonical) return;
    const [left, right] = each.forward ? [targetOf(each), answer.canonical] : [answer.canonical, targetOf(each)];
    const own = { step: each, answer, left, right };
    if (each.forward) found.push(own);
    for (const molecule of answer.molecules) if (molecule.step) add(molecule.step);
    if (!each.forward) found.push(own);
  };
  add(step);
  const numbers = new Map(); // a molecule that is needed twice is made once
  for (const each of found) {
    const text = `${each.left}>>${each.right}`;
    each.number = numbers.get(text) ?? numbers.set(text, numbers.size + 1).get(text);
  }
  return found;
}

// ---- As JSON

/** A step without what belongs to this page alone. */
export function plain(step) {
  const { smiles, model, count, forward, open, error, note, planned, asked, others } = step;
  return {
    smiles, model, count, forward, open, error, note, planned, asked, others,
    answers: step.answers?.map((answer, rank) => ({
      ...answer,
      chosen: rank === step.chosen,
      molecules: answer.molecules.map((each) => ({ ...each, step: each.step && plain(each.step) })),
    })) ?? null,
  };
}

/** A step as `plain` made it. Throws TypeError for anything else. */
export function revive(saved) {
  const is = (value, kind) => { if (typeof value !== kind) throw new TypeError(`${value} is no ${kind}`); };
  is(saved.smiles, "string");
  is(saved.model, "string");
  const step = newStep(saved.smiles, saved.model, saved.count ?? Number($("count").value));
  Object.assign(step, { forward: Boolean(saved.forward), error: saved.error ?? "", note: saved.note ?? "", open: Boolean(saved.open), planned: Boolean(saved.planned), asked: saved.asked ?? "", others: (saved.others ?? []).map((each) => plain(revive(each))) });
  step.chosen = Math.max(0, (saved.answers ?? []).findIndex((answer) => answer.chosen));
  step.answers = saved.answers?.map(({ chosen, ...answer }) => {
    is(answer.log_prob, "number");
    for (const each of answer.molecules) is(each.smiles, "string");
    return { ...answer, molecules: answer.molecules.map((each) => ({ ...each, step: each.step && Object.assign(revive(each.step), { above: step }) })) };
  }) ?? null;
  return step;
}

export const written = () => ({ shown: work.shown, routes: work.routes.map(plain) });

/** Hold the routes of `written`. */
export function read({ routes, shown }) {
  const revived = routes.map(revive); // before anything changes
  Object.assign(work, { routes: revived, shown: shown in revived ? shown : 0 });
}

// ---- Undo, and work that outlives the page

const MOST_PAST = 20;

let depth = history.state?.depth ?? 0; // changes that the browser's Back takes back
let future = []; // what was taken back

/** Note the routes as they are, before a change. */
export function remember() {
  work.past = [...work.past.slice(1 - MOST_PAST), JSON.stringify(written())];
  future = [];
  history.pushState({ depth: ++depth }, "");
}

/** Take the last change back, if it is known. */
export function undo() {
  if (!work.past.length) return;
  future.push(JSON.stringify(written()));
  read(JSON.parse(work.past.pop()));
}

/** As `undo`, of which the browser does not know. */
export function takeBack() {
  undo();
  depth = Math.max(0, depth - 1);
  history.replaceState({ depth }, "");
}

/** Go where the browser's Back or Forward leads. */
export function goWith({ state }) {
  const to = state?.depth ?? 0;
  if (to === depth && depth) history.back(); // this change was taken back
  for (; depth > to; depth--) undo();
  for (; depth < to; depth++) {
    if (!future.length) continue;
    work.past.push(JSON.stringify(written()));
    read(JSON.parse(future.pop()));
  }
}

const FIELDS = { smiles: "value", model: "value", count: "value", salts: "checked", deuterium: "checked" };
const steered = () => [...document.querySelectorAll("[data-plan]")];

export function keep() {
  const form = Object.fromEntries(Object.entries(FIELDS).map(([id, property]) => [id, $(id)[property]]));
  form.steered = steered().map((each) => [each.value, each.checked]);
  const text = JSON.stringify({ form, past: work.past, ...written() });
  try {
    sessionStorage.setItem("work", text); // of this tab
    localStorage.setItem("work", text); // of the last one
  } catch { // there is no room, or storage is forbidden: the page works without
  }
}

/** Hold the work of this tab, or of the last one. */
export function restore() {
  let kept = null;
  try {
    kept = JSON.parse(sessionStorage.getItem("work") ?? localStorage.getItem("work"));
    if (kept) read(kept);
  } catch { // as none
    return;
  }
  if (!kept) return;
  for (const [id, property] of Object.entries(FIELDS)) if (id !== "model" || models.has(kept.form.model)) $(id)[property] = kept.form[id] ?? "";
  steered().forEach((each, index) => ([each.value, each.checked] = kept.form.steered?.[index] ?? ["", false]));
  work.past = kept.past;
}
