// What steers a plan: limits, bonds that are clicked in the drawing of the target, molecules that are
// bought or not, and steps that are forbidden. All of it is in fields of the form.

import { $, h, image } from "./dom.js";
import { withBonds } from "./draw.js";
import { root } from "./work.js";

const KINDS = ["keep_bonds", "break_bonds"];
let target = null; // whose bonds are drawn
const fields = () => document.querySelectorAll("[data-plan]");
const listed = (field) => field.value.split(",").map((each) => each.trim()).filter(Boolean);

/** The fields of a request to /v1/plan for a molecule that differ from the server's own. */
export function steering(smiles) {
  if (target !== smiles) forgetBonds();
  const given = [...fields()].filter((each) => (each.type === "checkbox" ? each.checked : each.value.trim()));
  const valueOf = (each) => (each.type === "checkbox" ? true : each.type === "number" ? Number(each.value) : each.value.trim());
  return Object.fromEntries(given.map((each) => [each.dataset.plan, valueOf(each)]));
}

/** Add a molecule or a step to the field "buy", "avoid" or "forbid", and plan again. */
export function steerBy(name, text) {
  for (const each of name === "forbid" ? [name] : ["buy", "avoid"]) {
    const field = document.querySelector(`[data-plan=${each}]`);
    const others = listed(field).filter((other) => other !== text);
    field.value = (each === name ? [...others, text] : others).join(",");
  }
  $("steering").open = true;
  $("smiles").value = root().asked || root().smiles; // whose atoms the bonds count
  $("plan").click();
}

/** Bonds are of one target. */
function forgetBonds() {
  for (const each of KINDS) document.querySelector(`[data-plan=${each}]`).value = "";
}

/** Draw the target, so that its bonds can be clicked: keep, break, neither. */
export async function drawBonds() {
  const smiles = $("smiles").value.trim();
  if (!$("steering").open) return;
  if (target !== null && target !== smiles) forgetBonds();
  target = smiles;
  const svg = smiles && (await withBonds(smiles.split(" ")[0]));
  if (target !== smiles) return;
  $("bonds").replaceChildren(image(svg) ?? h("span", {}, "Draw a molecule, or paste its SMILES."));
  markBonds();
}

function markBonds() {
  for (const bond of $("bonds").querySelectorAll("[data-bond]")) {
    for (const each of KINDS) bond.classList.toggle(each, listed(document.querySelector(`[data-plan=${each}]`)).includes(bond.dataset.bond));
  }
}

function turn({ target: { dataset } }) {
  if (!dataset.bond) return;
  const [kept, broken] = KINDS.map((each) => document.querySelector(`[data-plan=${each}]`));
  const was = [kept, broken].findIndex((field) => listed(field).includes(dataset.bond));
  for (const [index, field] of [kept, broken].entries()) {
    const others = listed(field).filter((each) => each !== dataset.bond);
    field.value = (index === was + 1 ? [...others, dataset.bond] : others).join(",");
  }
  markBonds();
}

$("steering").addEventListener("toggle", drawBonds);
$("steering").addEventListener("change", markBonds);
$("bonds").addEventListener("click", turn);
$("bonds").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" && event.key !== " ") return;
  event.preventDefault();
  turn(event);
});
