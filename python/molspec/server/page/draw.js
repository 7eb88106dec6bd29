// Asks draw_worker.js for drawings, one at a time, and ends it if one takes too long.

/** Milliseconds for a drawing. OpenChemLib may lay out a cage of rings for minutes. */
const LONGEST = 5000;

let worker = null; // a promise
let last = Promise.resolve(); // the drawing before the next one
const drawings = new Map(); // promises, by what is drawn

/**
 * SVG of molecules, and of the product that they give, or null, with the changes in colour:
 * { molecules, product }, or { error } if one cannot be drawn. The SMILES need not be canonical.
 */
export function drawn(texts, product = null) {
  const key = JSON.stringify([texts, product]);
  if (!drawings.has(key)) {
    last = last.then(() => asked({ texts, product }));
    drawings.set(key, last);
  }
  return drawings.get(key);
}

async function asked(message) {
  const drawing = await (worker ??= started());
  if (!drawing) return { error: "OpenChemLib cannot be loaded." };
  const answer = new Promise((told) => (drawing.onmessage = ({ data }) => told(data)));
  let timer;
  const late = new Promise((told) => (timer = setTimeout(told, LONGEST)));
  drawing.postMessage(message);
  const made = await Promise.race([answer, late]);
  clearTimeout(timer);
  if (made) return made;
  drawing.terminate();
  worker = null;
  return { error: `It takes more than ${LONGEST / 1000} s to draw.` };
}

/** A worker that has loaded OpenChemLib; null if it cannot. */
function started() {
  const made = new Worker(new URL("draw_worker.js", import.meta.url), { type: "module" });
  return new Promise((told) => {
    made.onmessage = () => told(made);
    made.onerror = () => told(null);
  });
}
