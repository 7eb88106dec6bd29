// Requests to the server, by addresses relative to the page, and what it serves.

import { $ } from "./dom.js";

export const models = new Map(); // by name, as /v1/models says
export const server = { sells: false, version: "" }; // sells: whether it says what is for sale

export class Refused extends Error {}

/** Ask for a response; throws Refused with what the server says. */
export async function request(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  const key = sessionStorage.getItem("key");
  if (key) headers["X-API-Key"] = key;
  let response;
  try {
    response = await fetch(path, body ? { method: "POST", headers, body: JSON.stringify(body), signal } : { headers });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refused("The server cannot be reached.");
  }
  if (response.ok) return response;
  $("key-field").hidden = $("key-field").hidden && response.status !== 401;
  const detail = (await response.json().catch(() => ({}))).detail;
  throw new Refused(Array.isArray(detail) ? detail.map((each) => wrong(each, path)).join("; ") : detail || response.statusText || `status ${response.status}`);
}

/** The label of a field of the page, by its name in requests; "" if it has none. */
function labelOf(name, path) {
  if (name === "deuterium_as_hydrogen") return $("deuterium").labels[0].textContent.trim();
  if (path !== "v1/plan") return { n_best: "Answers", queries: "SMILES", text: "SMILES", smiles: "SMILES" }[name] ?? "";
  const [label] = document.querySelector(`[data-plan="${CSS.escape(name)}"]`)?.labels ?? [];
  return label ? [...label.childNodes].filter((each) => each.nodeType === Node.TEXT_NODE).map((each) => each.data).join("").trim() : name === "smiles" ? "SMILES" : "";
}

/** A server's message with the page's labels in place of the names of fields. */
export const labelled = (message, path = "v1/plan") =>
  message
    .replace(/(^|: )([a-z_]+)(?= (?:is|has)\b)/g, (whole, before, name) => (labelOf(name, path) ? `${before}“${labelOf(name, path)}”` : whole))
    .replace(/\b([a-z_]+) \(--[a-z-]+\)/g, (whole, name) => (labelOf(name, path) ? `“${labelOf(name, path)}”` : whole)); // with the flag

/** What is wrong with a field, beginning with the field. */
function wrong({ msg, loc = [] }, path) {
  const name = loc.filter((each) => typeof each === "string").at(-1) ?? "";
  const label = msg.startsWith(`${name} `) ? "" : labelOf(name, path);
  return label ? `“${label}”: ${msg}` : labelled(msg, path);
}

export async function call(path, body) {
  const response = await request(path, body);
  return response.json().catch(() => { throw new Refused("The server's answer is not JSON."); });
}

export const modelOf = (task) => [...models.values()].find((model) => model.task === task);

export async function loadModels() {
  const served = await call("v1/models");
  const before = $("model").value;
  models.clear();
  for (const model of served.models) models.set(model.name, model);
  $("model").replaceChildren(...served.models.map((model) => new Option(called(model), model.name)));
  $("model").value = models.has(before) ? before : (modelOf("retro") ?? served.models[0]).name;
  $("count").max = served.limits.n_best;
  $("plan").hidden = $("steering").hidden = !modelOf("retro"); // a server that lacks something else says so
  if (served.match) $("matching").textContent = `A molecule is bought if the stock, of ${served.stock} molecules, has ${MATCHES[served.match]}. The server's option --match sets this.`;
  Object.assign(server, { sells: served.stock !== null, version: served.version });
}

/** How a server's molecules match its stock. */
const MATCHES = {
  exact: "the same one, with its stereo", inchikey: "one of its InChIKey",
  "no-stereo": "it, of whatever stereo", tautomer: "it, or another tautomer of it",
};

function called(model) {
  const does = { retro: "Find reactants", product: "Predict products" }[model.task];
  return does ? `${does} (${model.name})` : model.name;
}
