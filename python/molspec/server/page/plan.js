// Whole routes, which the server searches for.

import { $, say } from "./dom.js";
import { labelled, modelOf, request, Refused } from "./server.js";
import { steering } from "./steer.js";
import { partsOf, remember, revive, work } from "./work.js";

let search = null; // an AbortController

/** End the search, if there is one. */
export const endSearch = () => search?.abort();

/** Search for routes to a molecule; its lines say how far it is, the last one has them. */
export async function plan(smiles, shown) {
  const stop = search = new AbortController();
  const told = $("planning").querySelector("span");
  $("plan").disabled = true;
  $("planning").hidden = false;
  $("form").classList.add("folded"); // so that a phone shows how far it is
  told.textContent = "The search is about to begin …";
  const chosen = { keep_salts: $("salts").checked, deuterium_as_hydrogen: $("deuterium").checked, check: Boolean(modelOf("product")) };
  const body = { smiles, ...Object.fromEntries(Object.entries(chosen).filter(([, value]) => value)), ...steering(smiles) };
  try {
    const response = await request("v1/plan", body, stop.signal);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let [text, found] = ["", {}];
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      const lines = (text + part.value).split("\n");
      text = lines.pop();
      for (const line of lines) found = JSON.parse(line);
      if (found.seconds) told.textContent = `Searching: ${lookedAt(found)} …`;
    }
    if (hold(found)) shown();
  } catch (error) {
    if (!stop.signal.aborted) $("form-error").textContent = error instanceof Refused ? error.message : "The search was cut off; try again.";
  } finally {
    $("plan").disabled = false;
    $("planning").hidden = true;
  }
}

/** How far a search is. */
const lookedAt = ({ expansions, seconds }) =>
  `${expansions} ${expansions === 1 ? "molecule" : "molecules"} looked at in ${seconds.toFixed(0)} s`;

/** Hold the routes that were found, or the best attempt; false if there is nothing to show. */
function hold(found) {
  const looked = lookedAt(found);
  const [whole] = found.routes;
  if (whole && !whole.steps.length) {
    const name = [...Object.values(found.names), ...Object.values(found.bought).map((each) => `bought as ${each}`)].join(", ");
    $("form-error").textContent = `The target is in stock${name ? `: ${name}` : ""}.`;
    return false;
  }
  const none = `No route from molecules in stock was found: ${[looked, found.stopped].filter(Boolean).join(", ")}.`;
  if (found.error || !(whole || found.attempt?.steps.length)) {
    $("form-error").textContent = found.error ? labelled(found.error) : `${none}${found.missing.length ? ` Not in stock: ${found.missing.join(", ")}.` : ""}`;
    return false;
  }
  remember();
  const routes = whole ? found.routes : [found.attempt];
  Object.assign(work, { routes: routes.map((route) => revive(planned(route, found))), shown: 0 });
  for (const each of work.routes) each.note = found.note ?? "";
  if (!whole) work.routes[0].note = `${found.note ? `${found.note}. ` : ""}${none} This is the attempt that lacks least: ${found.missing.length === 1 ? "one molecule is" : `${found.missing.length} molecules are`} not in stock.`;
  say(whole ? `${routes.length} routes, ${looked}` : none);
  return true;
}

/** A route of the server as `plain` would write it. */
function planned(route, found) {
  const { target, names, prices, bought, missing } = found;
  const made = new Map();
  for (const { reaction, ...rest } of route.steps) {
    const [reactants, product] = reaction.split(">>");
    made.set(product, { ...rest, reactants });
  }
  const sale = (smiles) => (missing.includes(smiles) ? null : { name: names[smiles] ?? "", price: prices[smiles] ?? "", bought: bought[smiles] ?? "" });
  const stepOf = (smiles) => {
    const { reactants, log_prob, racemic, turned, check } = made.get(smiles);
    const molecules = partsOf(reactants).map((each) => (made.has(each) ? { smiles: each, sale: null, step: stepOf(each) } : { smiles: each, sale: sale(each), step: null }));
    const gives = check?.answer ? { smiles: check.answer, log_prob: check.answer_log_prob } : undefined;
    const checked = check?.log_prob == null ? {} : { check: check.log_prob, gives }; // the page scores others itself
    const answer = { smiles: reactants, canonical: reactants, log_prob, finished: true, racemic, turned, ...checked, confirmed: check ? check.log_prob !== null : undefined, chosen: true, molecules };
    return { smiles, model: modelOf("retro").name, answers: [answer] };
  };
  const others = (route.alternatives ?? []).map((each) => planned(each, found));
  return { ...stepOf(route.steps.at(-1).reaction.split(">>")[1]), planned: true, others, asked: target };
}
