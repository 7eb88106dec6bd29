// Drawings by draw_worker.js, one at a time; it is ended if one takes too long.

import { changed, partsOf, productOf, targetOf } from "./work.js";

/** Milliseconds for a drawing. OpenChemLib may lay out a cage of rings for minutes. */
const LONGEST = 5000;
/** Milliseconds between two views of the page while drawings are made. */
const PAUSE = 400;

let worker = null; // a promise
let last = Promise.resolve(); // the task before the next one
let waiting = 0; // tasks
let shownAt = 0;
const made = new Map(); // by what is drawn

export const isDrawing = () => waiting > 0;

/** Wait until all that has been asked for is drawn. */
export const allDrawn = () => last;

/** A molecule laid out, { idCode, coordinates } of OpenChemLib; undefined if it cannot be. */
export const layout = async (smiles) => (await queued({ layout: smiles })).layout;

/** SVG of a molecule whose bonds can be clicked; undefined if it cannot be drawn. */
export const withBonds = async (smiles) => (await queued({ bonds: smiles })).bonds;

/** Give the worker a task, keep its result, and show the page anew if others do not follow soon. */
function queued(message, keep = () => {}) {
  waiting++;
  return (last = last.then(async () => {
    const result = await asked(message);
    keep(result);
    waiting--;
    if (!waiting || performance.now() - shownAt > PAUSE) {
      shownAt = performance.now();
      changed();
    }
    return result;
  }));
}

/** { molecules, product } as SVG, or empty while they are drawn; above: as whose atoms those of the product lie. */
function drawing(texts, product = null, above = []) {
  const key = JSON.stringify([texts, product, above]);
  if (!made.has(key)) {
    made.set(key, {});
    queued({ texts, product, above }, (result) => made.set(key, result));
  }
  return made.get(key);
}

/** SVG, or "", of a molecule alone. */
export const drawnAlone = (smiles) => drawing([smiles]).molecules?.[0] ?? "";

/** SVG, or "", of the molecules of an answer, and of what was asked about, with the changes in colour. */
export function drawn(step, answer) {
  const [left, right] = (step.forward ? [targetOf(step), answer.canonical] : [answer.canonical, targetOf(step)]).map(partsOf);
  const above = []; // the products of the steps above
  for (let each = step.above; each; each = each.above) above.push(productOf(each));
  const { molecules: before, product } = drawing(left, right.length === 1 ? right[0] : null, above);
  const after = right.length === 1 ? [product] : drawing(right).molecules;
  const [asked, answered] = step.forward ? [before, after] : [after, before];
  const filled = (drawings, parts) => parts.map((_, index) => drawings?.[index] ?? "");
  return { queried: filled(asked, step.forward ? left : right), molecules: filled(answered, step.forward ? right : left) };
}

/** The worker's answer; a busy machine gets a second chance. */
async function asked(message, again = true) {
  const drawer = await (worker ??= started());
  if (!drawer) return {}; // OpenChemLib cannot be loaded: SMILES are shown
  const answer = new Promise((told) => (drawer.onmessage = ({ data }) => told(data)));
  let timer;
  const late = new Promise((told) => (timer = setTimeout(told, LONGEST)));
  drawer.postMessage(message);
  const result = await Promise.race([answer, late]);
  clearTimeout(timer);
  if (result) return result;
  drawer.terminate();
  worker = null;
  return again ? asked(message, false) : {};
}

/** A worker that has loaded OpenChemLib; null if it cannot. */
function started() {
  const drawer = new Worker(new URL("draw_worker.js", import.meta.url), { type: "module" });
  return new Promise((told) => {
    drawer.onmessage = () => told(drawer);
    drawer.onerror = () => told(null);
  });
}
