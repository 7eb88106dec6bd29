// Routes side by side: their steps, their probability, what they cost and what must be bought.

import { h, image, percent } from "./dom.js";
import { drawnAlone } from "./draw.js";
import { steerBy } from "./steer.js";
import { partsOf, reactions, revive, swap } from "./work.js";

/** What a chemist compares of a route. Its leaves are the molecules that no step of it makes. */
export function facts(route) {
  const found = [...new Map(reactions(route).map((each) => [each.number, each])).values()];
  const made = new Set(found.flatMap(({ right }) => partsOf(right)));
  const needed = found.flatMap(({ step, answer }) => (step.forward ? partsOf(step.smiles).map((smiles) => ({ smiles })) : answer.molecules));
  const leaves = new Map(needed.filter((each) => !made.has(each.smiles)).map((each) => [each.smiles, each]));
  return {
    steps: found.length,
    row: inARow(route),
    logProb: found.reduce((sum, { answer }) => sum + answer.log_prob, 0),
    leaves: [...leaves.values()],
    racemic: [...new Set(found.flatMap(({ answer }) => answer.racemic ?? []))],
    turned: [...new Set(found.flatMap(({ answer }) => answer.turned ?? []))],
    cost: cost([...leaves.values()]),
    checked: found.filter(({ answer }) => answer.check != null).length,
    among: found.some(({ answer }) => answer.confirmed != null), // as the server counts; the page: the first answer
    confirmed: found.filter(({ answer }) => answer.confirmed ?? (answer.check != null && !answer.gives)).length,
  };
}

/** The most steps in a row. */
function inARow(step) {
  const answer = step?.answers?.[step.chosen];
  return answer?.canonical ? 1 + Math.max(0, ...answer.molecules.map((each) => inARow(each.step))) : 0;
}

/** As the server reads prices: with groups of thousands, and a decimal comma. */
const PRICE = /^([^\d.,]*)(\d{1,3}(?:[, ']\d{3})+|\d+)(?:[.,](\d+))?([^\d.,]*)$/;

/** The sum of the prices, which are text, if they are of one currency and unit; "" if there is none. */
function cost(leaves) {
  const prices = leaves.map((each) => each.sale?.price).filter(Boolean);
  if (!prices.length) return "";
  const read = prices.map((price) => PRICE.exec(price)).filter(Boolean);
  const odd = prices.filter((price) => !PRICE.test(price));
  const what = odd.length === 1 ? "is not a number" : "are not numbers";
  if (!read.length) return `${odd.join(", ")} ${what}`;
  const unread = odd.length && `without ${odd.join(", ")}, which ${what}`;
  const [, before, , , after] = read[0];
  if (read.some((each) => each[1] !== before || each[4] !== after)) return ["prices of several units", unread].filter(Boolean).join(", ");
  const sum = Number(read.reduce((total, each) => total + Number(`${each[2].replace(/[, ']/g, "")}.${each[3] ?? 0}`), 0).toFixed(2));
  const unknown = leaves.length - prices.length;
  return [`${before}${sum}${after}`, unread, unknown && `and ${unknown} without a price`].filter(Boolean).join(", ");
}

/** What is sold as a molecule, in words. */
export const offer = ({ name, price, bought }) => [name, price, bought && `bought as ${bought}`].filter(Boolean).join(", ");

/** The facts of a route as a list of terms. */
export function factsView(route, canSteer = false) {
  const { steps, row, logProb, leaves, racemic, turned, cost: sum, checked, among, confirmed } = facts(route);
  const term = (name, ...values) => [h("dt", {}, name), ...values.map((value) => h("dd", {}, value))];
  const buy = leaves.filter((each) => each.sale);
  const lacked = leaves.filter((each) => each.sale === null);
  const unknown = leaves.filter((each) => each.sale === undefined);
  const steer = (each) => {
    const [name, text] = each.sale ? ["avoid", "Do not buy"] : ["buy", "Count as bought"];
    return canSteer && each.sale !== undefined ? h("button", { type: "button", class: "steer", "data-name": `${name} ${each.smiles}`, click: () => steerBy(name, each.smiles) }, text) : null;
  };
  const item = (each) => h("li", {}, image(drawnAlone(each.smiles)), h("code", {}, each.smiles), each.sale && offer(each.sale) ? h("span", {}, offer(each.sale)) : null, steer(each));
  const alternative = (other, index) => {
    const theirs = facts(revive(other));
    const lacking = (some, others) => some.filter((each) => !others.some(({ smiles }) => smiles === each.smiles)).map((each) => each.smiles).join(" + ");
    const [text, without] = [lacking(theirs.leaves, leaves), lacking(leaves, theirs.leaves)];
    const length = `in ${theirs.steps} ${theirs.steps === 1 ? "step" : "steps"}`;
    const same = without ? `without ${without}, ${length}` : `the same molecules by other steps, ${length}`;
    const show = canSteer ? h("button", { type: "button", class: "steer", "data-name": `instead ${index} ${text}`, click: () => swap(route, index) }, "Show this way") : null;
    return h("li", {}, text ? h("code", {}, text) : h("span", {}, same), show);
  };
  const list = (name, molecules, kind) => (molecules.length ? term(name, h("ul", { class: kind }, ...molecules.map(item))) : []);
  return h(
    "dl",
    { class: "facts" },
    ...term("Steps", row < steps ? `${steps}, ${row} in a row` : `${steps}`),
    ...term("Probability", percent(logProb)),
    ...(checked ? term("Confirmed forward", `${confirmed} of ${steps} ${steps === 1 ? "step" : "steps"}: the product is ${among ? "among the three likeliest answers" : "the first answer"}`) : []),
    ...(sum ? term("Prices, summed", sum) : []),
    ...list("Buy", buy, "buy"),
    ...list("Not in stock", lacked, "lacked"),
    ...list("Start from", unknown, "unknown"),
    ...((route.others ?? []).length ? term("Or buy", h("ul", {}, ...route.others.map(alternative))) : []),
    ...list("Racemic or unspecified", racemic.map((smiles) => ({ smiles })), "lacked"),
    ...list("Of another configuration than their product", turned.map((smiles) => ({ smiles })), "lacked"),
  );
}

/** A route of several, and a button that shows it. */
export function routeCard(route, index, isShown, choose) {
  const attributes = { type: "button", "data-name": `route ${index}`, "aria-pressed": String(isShown), click: choose };
  return h("article", { class: isShown ? "card shown" : "card" }, h("button", attributes, `Route ${index + 1}`), factsView(route, route.planned));
}
