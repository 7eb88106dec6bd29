// A link to what the page shows. All of it is after the "#", which browsers send to no server.

import { $ } from "./dom.js";
import { modelOf, models } from "./server.js";
import { read, work, written } from "./work.js";

async function bytesThrough(transform, bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(transform);
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const KIND = "deflate-raw";

async function packed(value) {
  const bytes = await bytesThrough(new CompressionStream(KIND), JSON.stringify(value));
  const text = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function unpacked(text) {
  const letters = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = await bytesThrough(new DecompressionStream(KIND), Uint8Array.from(letters, (each) => each.charCodeAt(0)));
  return JSON.parse(new TextDecoder().decode(bytes));
}

/** The address of this view: the target, the task, and the routes with all answers. */
export async function link() {
  const task = models.get($("model").value)?.task ?? $("model").value;
  const fields = new URLSearchParams({ smiles: $("smiles").value.trim(), task, answers: $("count").value });
  if ($("salts").checked) fields.set("salts", "keep");
  if (work.routes.length) fields.set("routes", await packed(written()));
  return `${location.href.split("#")[0]}#${fields}`;
}

/** Steps that were not answered yet are not asked for. */
function settle(step) {
  if (!step.answers && !step.error) step.error = "Not predicted when the link was made.";
  for (const answer of step.answers ?? []) for (const { step: next } of answer.molecules) if (next) settle(next);
}

/**
 * Hold what the address has after its "#", and take it out of the address; false if there is nothing.
 * It asks the server nothing. Throws if it is no link of this page.
 */
export async function follow() {
  const fields = new URLSearchParams(location.hash.slice(1));
  if (!fields.has("smiles")) return false;
  history.replaceState(null, "", location.href.split("#")[0]); // a reload shows the work as it is then
  $("smiles").value = fields.get("smiles");
  const model = modelOf(fields.get("task")) ?? models.get(fields.get("task"));
  if (model) $("model").value = model.name;
  if (fields.has("answers")) $("count").value = fields.get("answers");
  $("salts").checked = fields.get("salts") === "keep";
  read(fields.has("routes") ? await unpacked(fields.get("routes")) : { routes: [], shown: 0 });
  work.routes.forEach(settle);
  return true;
}
