// The page: draw or paste a molecule, predict or plan, and click on an answer to predict further.
//
// All that it shows is in work.js. The whole of it is shown anew when anything changes, and kept in
// the browser's storage.

import { $, copy, say } from "./dom.js";
import { stepView } from "./answers.js";
import { allDrawn, isDrawing } from "./draw.js";
import { loadEditor } from "./editor.js";
import { follow, link } from "./link.js";
import { endSearch, plan } from "./plan.js";
import { routeCard } from "./routes.js";
import { opened, save } from "./save.js";
import { overview } from "./scheme.js";
import { call, labelled, loadModels, modelOf, models, Refused, server } from "./server.js";
import { drawBonds } from "./steer.js";
import { goWith, keep, newAnswer, newStep, onChange, partsOf, reactions, read, remember, restore, root, takeBack, targetOf, work } from "./work.js";

let editor = null;

// ---- Steps

/** Ask for the answers of a step, which is shown meanwhile; then show them from their top. */
async function ask(step) {
  try {
    const { results } = await call("v1/predict", { model: step.model, queries: [step.smiles], n_best: step.count, keep_salts: $("salts").checked, deuterium_as_hydrogen: $("deuterium").checked });
    const [result] = results;
    step.error = result.error ?? (result.predictions.length ? "" : "No answer.");
    step.note = result.note ?? "";
    step.answers = result.predictions.map(newAnswer);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    step.error = error.message;
  }
  say(labelled(step.error, "v1/predict") || `${step.answers.length} answers for ${step.smiles}`);
  show();
  await allDrawn(); // drawings are high
  $(step.id)?.scrollIntoView({ behavior: "smooth" });
  await Promise.all([lookUp(step).catch(() => null), check(step)]); // then nothing is marked
}

/** Mark the molecules of a step's answers that are for sale. */
async function lookUp(step) {
  const molecules = (step.answers ?? []).flatMap((each) => each.molecules);
  if (!server.sells || !molecules.length) return;
  const { offers } = await call("v1/stock", { smiles: molecules.map((each) => each.smiles) });
  molecules.forEach((each, index) => (each.sale = offers[index]));
  show();
}

const checks = new WeakMap(); // the last request of each step

/** Check a step's answers, after the request that is under way. */
function check(step) {
  const request = Promise.resolve(checks.get(step)).then(() => checkNow(step)).catch(() => null);
  checks.set(step, request);
  return request;
}

/** How probably the model of products gives the molecule from each answer, and what it gives first. */
async function checkNow(step) {
  const model = modelOf("product")?.name;
  const answers = (step.answers ?? []).filter((each) => each.canonical !== null && each.check === undefined);
  if (!model || step.forward || !answers.length) return;
  const asked = { model, queries: answers.map((each) => each.canonical) };
  const [scored, made] = await Promise.all([
    call("v1/score", { ...asked, targets: answers.map(() => targetOf(step)) }),
    call("v1/predict", { ...asked, n_best: 1 }),
  ]);
  scored.results.forEach(({ predictions: [score] }, index) => {
    const [first] = made.results[index].predictions;
    answers[index].check = score?.log_prob ?? null;
    if (score && first && first.canonical !== score.canonical) answers[index].gives = { smiles: first.canonical, log_prob: first.log_prob };
  });
  show();
}

/** Ask for what a route lacks: answers, and checks of them. */
function complete(step) {
  if (!step.answers && !step.error) ask(step);
  else check(step);
  for (const molecule of step.answers?.[step.chosen]?.molecules ?? []) if (molecule.step) complete(molecule.step);
}

/** Go on from a molecule of an answer; forward with what reacts with it. */
function predictNext(step, answer, molecule) {
  const goOn = (smiles) => goOnFrom(step, answer, molecule, smiles);
  if (!step.forward || models.get($("model").value)?.task !== "product") return goOn(molecule.smiles);
  $("partner").querySelector("code").textContent = molecule.smiles;
  $("partners").value = partsOf(molecule.step?.smiles ?? "").slice(1).join(".");
  $("partner").returnValue = "";
  $("partner").onclose = () => {
    const { returnValue: way } = $("partner");
    if (way) goOn(way === "alone" ? molecule.smiles : `${molecule.smiles}.${$("partners").value.trim()}`);
  };
  $("partner").showModal();
}

function goOnFrom(step, answer, molecule, smiles) {
  remember();
  step.chosen = step.answers.indexOf(answer);
  step.open = false;
  if (!molecule.step || molecule.step.error || molecule.step.smiles !== smiles) {
    molecule.step = Object.assign(newStep(smiles, $("model").value, Number($("count").value)), { above: step });
    ask(molecule.step);
  }
  show();
  goTo(molecule.step.id);
}

function goTo(id) {
  $(id).focus({ preventScroll: true });
  $(id).scrollIntoView({ behavior: "smooth" });
}

// ---- What is shown

function show() {
  const focused = document.activeElement?.dataset?.name;
  const route = root();
  const found = route ? reactions(route) : [];
  const many = work.routes.length > 1;
  const isRoute = route?.planned || many || found.length > 1; // not answers alone
  $("route").hidden = !route && !work.past.length;
  $("route-title").textContent = many ? `${work.routes.length} routes` : "Route";
  $("undo").disabled = !work.past.length;
  $("note").textContent = route?.note ?? "";
  $("ask-form").hidden = !route?.note.includes("the racemate");
  $("ask-form").textContent = route && targetOf(route).includes("@") ? "Take it without the configuration?" : "Take the enantiomer that is drawn?";
  for (const id of ["save", "link"]) $(id).disabled = !route;
  $("tree").replaceChildren(...(route ? [stepView(route, new Map(found.map(({ step, number }) => [step, number])), predictNext)] : []));
  $("routes").replaceChildren(...(isRoute ? work.routes.map((each, index) => routeCard(each, index, each === route, () => choose(index))) : []));
  $("overview").replaceChildren(...(isRoute ? overview(route, "overview") : []));
  $("overview").classList.toggle("forward", Boolean(route?.forward));
  $("route").setAttribute("aria-busy", isDrawing());
  $("smiles").style.height = "auto"; // then as high as its text
  $("smiles").style.height = `${$("smiles").scrollHeight + 2}px`;
  if (focused) document.querySelector(`[data-name="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  keep();
}

function choose(index) {
  remember();
  work.shown = index;
  complete(root());
  show();
}

/** Show routes that were not shown before; a search for others ends. */
function begin() {
  endSearch();
  for (const id of ["form-error", "smiles-error"]) $(id).textContent = "";
  $("ask-product").hidden = $("ask-hydrogen").hidden = true;
  $("form").classList.toggle("folded", work.routes.length > 0);
  show();
}

/** Leave nothing of before. */
function beginAnew() {
  Object.assign(work, { routes: [], shown: 0, past: [] });
  $("form").reset();
  if (modelOf("retro")) $("model").value = modelOf("retro").name;
  $("steering").open = false;
  editor?.clear();
  say("");
  begin();
  $("smiles").focus();
}

async function openFile() {
  const [file] = $("file").files;
  $("file").value = ""; // so that it can be opened again
  try {
    const saved = await opened(file);
    const before = JSON.stringify(saved); // throws for none
    remember();
    read(JSON.parse(before));
    $("smiles").value = root().smiles;
    begin();
  } catch {
    $("form-error").textContent = `${file.name} holds no route that this page saved.`;
  }
}

async function openLink() {
  try {
    if (!(await follow())) return false;
    work.past = [];
    begin();
    editor?.draw();
  } catch {
    $("form-error").textContent = "The address is not a link of this page, or a part of it is missing.";
  }
  return true;
}

// ---- The form

/** What is asked about, or nothing: then the page says so. */
function wanted() {
  const smiles = $("smiles").value.trim();
  $("form-error").textContent = "";
  $("ask-product").hidden = true;
  $("ask-hydrogen").hidden = true;
  $("smiles-error").textContent = smiles ? "" : "Draw a molecule, or paste its SMILES.";
  if (!smiles) $("smiles").focus();
  return smiles;
}

/** What was pasted as SMILES: InChI, a molfile, a reaction, of which the task reads one side. */
async function understood() {
  const text = $("smiles").value;
  if (!/^InChI=|[\n>]/.test(text.trim())) return text.trim();
  const { smiles } = await call("v1/read", { text, task: models.get($("model").value)?.task ?? null });
  $("smiles").value = smiles;
  editor?.draw();
  return smiles;
}

async function submit(event) {
  event.preventDefault();
  const button = $("form").querySelector("button.main");
  if (button.disabled) return; // a key submits too
  const count = Number($("count").value);
  if (!wanted()) return;
  if (!Number.isInteger(count) || count < 1 || count > Number($("count").max)) {
    $("form-error").textContent = `Answers: a whole number from 1 to ${$("count").max}.`;
    $("count").focus();
    return;
  }
  button.disabled = true;
  try {
    if ($("key").value) sessionStorage.setItem("key", $("key").value);
    if (!models.size) await loadModels();
    const smiles = await understood();
    remember();
    const step = newStep(smiles, $("model").value, count);
    Object.assign(work, { routes: [step], shown: 0 });
    begin();
    await ask(step);
    if (step.error && !step.answers?.length && root() === step) refuse(step);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    $("smiles-error").textContent = error.message;
  } finally {
    button.disabled = false;
  }
}

/** Say what is wrong with a step where it was written, and show what was before. */
function refuse(step) {
  takeBack();
  begin();
  $("form").classList.remove("folded");
  $("smiles-error").textContent = labelled(step.error, "v1/predict");
  $("ask-product").hidden = step.forward || !step.smiles.includes(".") || !modelOf("product");
  $("ask-hydrogen").hidden = !step.error.includes("deuterium_as_hydrogen");
  ($("ask-product").hidden ? $("smiles") : $("ask-product")).focus();
}

function tryExample({ target: { dataset } }) {
  $("smiles").value = dataset.smiles;
  if (modelOf(dataset.task)) $("model").value = modelOf(dataset.task).name;
  editor?.draw();
  $("form").requestSubmit();
}

onChange(show);
$("form").addEventListener("submit", submit);
$("form").addEventListener("change", keep);
for (const each of document.querySelectorAll("[data-smiles]")) each.addEventListener("click", tryExample);
$("ask-product").addEventListener("click", () => {
  $("model").value = modelOf("product").name;
  $("form").requestSubmit();
});
$("smiles").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  $("form").requestSubmit();
});
$("ask-hydrogen").addEventListener("click", () => {
  $("deuterium").checked = true;
  $("form").requestSubmit();
});
$("ask-form").addEventListener("click", () => {
  const { asked, smiles, planned } = root();
  const drawn = (asked || smiles).split("|")[0].trim();
  $("smiles").value = targetOf(root()).includes("@") ? drawn.replaceAll("@", "") : drawn;
  if (planned) $("plan").click();
  else $("form").requestSubmit();
});
let typed;
$("smiles").addEventListener("input", () => {
  clearTimeout(typed);
  typed = setTimeout(() => { editor?.draw(); drawBonds(); }, 300);
  $("smiles").style.height = `${Math.max($("smiles").offsetHeight, $("smiles").scrollHeight + 2)}px`;
});
$("plan").addEventListener("click", async () => {
  if (!wanted()) return;
  const smiles = await understood().catch((error) => { $("smiles-error").textContent = error.message; });
  if (smiles) plan(smiles, async () => {
    begin();
    work.routes.forEach(complete);
    await allDrawn();
    $("route").scrollIntoView({ behavior: "smooth" });
  });
});
$("cancel").addEventListener("click", endSearch);
$("unfold").addEventListener("click", () => $("form").classList.remove("folded"));
/** Show what was before. */
function goBack() {
  begin();
  work.routes.forEach(complete);
  say("undone");
}
$("undo").addEventListener("click", () => {
  takeBack();
  goBack();
});
window.addEventListener("popstate", (event) => {
  if (location.hash) return; // a link
  goWith(event);
  goBack();
});
$("open").addEventListener("click", () => $("file").click());
$("file").addEventListener("change", openFile);
$("new").addEventListener("click", beginAnew);
$("link").addEventListener("click", async () => copy(await link(), $("link")));
$("save").addEventListener("change", async () => {
  const form = $("save").value;
  $("save").value = "";
  await Promise.all(work.routes.flatMap(reactions).map(({ step }) => check(step))); // of all routes
  await save(form);
});
$("overview").addEventListener("click", (event) => {
  const step = event.target.closest("[data-step]")?.dataset.step;
  if (step) goTo(step);
});
window.addEventListener("hashchange", openLink);

async function start() {
  await loadModels();
  if (await openLink()) return;
  restore();
  begin();
  work.routes.forEach(complete);
}
start().catch((error) => ($("form-error").textContent = error.message));
loadEditor().then((loaded) => (editor = loaded)).catch(() => ($("editor").textContent = "The editor cannot be shown here; paste SMILES instead."));
