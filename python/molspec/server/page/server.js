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
  throw new Refused(Array.isArray(detail) ? detail.map((each) => each.msg).join("; ") : detail || response.statusText || `status ${response.status}`);
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
