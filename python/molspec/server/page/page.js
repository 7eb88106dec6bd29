// The page: draw or paste a molecule, predict or plan, and click on an answer to predict further.
//
// A step is one molecule and its answers: { smiles, model, answers, chosen, error }. An answer
// has the molecules that it is drawn as; each may have a step of its own. The steps of chosen
// answers are the route. The whole tree is drawn anew when anything in it changes, and kept in the
// browser's storage, as it is saved to a file.

import { drawn } from "./draw.js";

const $ = (id) => document.getElementById(id);
const models = new Map(); // by name, as /v1/models says
let root = null; // the first step
let past = []; // roots before the last changes, as JSON, for undo
let routes = []; // of a plan, as JSON of their roots
let steps = 0; // numbered, for their names in the document
let editor = null;
let search = null; // for a plan: its AbortController
let sells = false; // whether the server says what is for sale

// ---- The server

class Refused extends Error {}

/** Ask the server for a response, by an address relative to the page; throws Refused with what it says. */
async function request(path, body, signal) {
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

async function call(path, body) {
  const response = await request(path, body);
  return response.json().catch(() => { throw new Refused("The server's answer is not JSON."); });
}

async function loadModels() {
  const served = await call("v1/models");
  const before = $("model").value;
  models.clear();
  for (const model of served.models) models.set(model.name, model);
  $("model").replaceChildren(...served.models.map((model) => new Option(called(model), model.name)));
  const first = served.models.find((model) => model.task === "retro") ?? served.models[0];
  $("model").value = models.has(before) ? before : first.name;
  $("count").max = served.limits.n_best;
  $("plan").hidden = !served.plans;
  sells = served.stock !== null;
}

function called(model) {
  const does = { retro: "Find reactants", product: "Predict products" }[model.task];
  return does ? `${does} (${model.name})` : model.name;
}

// ---- Steps

const newStep = (smiles, model, count) => ({ id: `step-${++steps}`, smiles, model, count, answers: null, chosen: 0, open: true, error: "", note: "" });

/** Ask for the answers of a step, which is shown meanwhile; then show them from their top. */
async function ask(step) {
  try {
    const { results } = await call("v1/predict", { model: step.model, queries: [step.smiles], n_best: step.count, keep_salts: $("salts").checked });
    const [result] = results;
    step.error = result.error ?? (result.predictions.length ? "" : "No answer.");
    step.note = result.note ?? "";
    step.answers = result.predictions.map((prediction) => ({ ...prediction, molecules: null, queried: null }));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    step.error = error.message;
  }
  say(step.error || `${step.answers.length} answers for ${step.smiles}`);
  show();
  await reveal(step);
}

/** Move to the top of a step once its drawings, which are high, are there. */
async function reveal(step) {
  await Promise.all((step.answers ?? []).map((answer) => answer.drawing));
  $(step.id)?.scrollIntoView({ behavior: "smooth" });
}

const productModel = () => [...models.values()].find((model) => model.task === "product");
const isForward = (step) => models.get(step.model)?.task === "product";
const percent = (logProb) => `${Math.min(100, 100 * Math.exp(logProb)).toFixed(1)} %`;

/** Draw an answer and look up what is for sale, once. */
const drawAnswer = (step, answer) => (answer.drawing ??= drawParts(step, answer));

const partsOf = (smiles) => smiles.split(/[.>]+/).filter(Boolean);

/** Draw the molecules of an answer, and the queries beside them. */
async function drawParts(step, answer) {
  if (answer.canonical === null) return;
  const [reactants, product] = isForward(step) ? [step.smiles, answer.canonical] : [answer.canonical, step.smiles];
  const products = partsOf(product);
  const made = await drawn(partsOf(reactants), products.length === 1 ? product : null);
  const named = (smiles, drawings) => partsOf(smiles).map((text, index) => ({ smiles: text, svg: drawings?.[index] ?? "" }));
  const [left, right] = [named(reactants, made.molecules), named(product, [made.product])];
  const before = answer.molecules ?? []; // as they were saved, with their steps
  [answer.queried, answer.molecules] = isForward(step) ? [left, right] : [right, left];
  for (const each of answer.molecules) each.step = before.find((other) => other.smiles === each.smiles)?.step;
  if (!isForward(step)) check(step, step.smiles);
  if (sells) await lookUp(answer.molecules).catch(() => null); // then nothing is marked
  show();
}

/** Mark the molecules that are for sale. */
async function lookUp(molecules) {
  const { offers } = await call("v1/stock", { smiles: molecules.map((each) => each.smiles) });
  molecules.forEach((each, index) => (each.for_sale = offers[index]));
}

/** How probably the model of products gives the molecule from each answer, and what it gives first. */
async function check(step, target) {
  const model = productModel()?.name;
  const answers = (step.answers ?? []).filter((each) => each.canonical !== null && each.check === undefined);
  if (!model || step.note || !answers.length) return;
  for (const each of answers) each.check = null;
  const asked = { model, queries: answers.map((each) => each.canonical) };
  const [scored, made] = await Promise.all([
    call("v1/score", { ...asked, targets: answers.map(() => target) }),
    call("v1/predict", { ...asked, n_best: 1 }),
  ]).catch(() => [{ results: [] }]);
  scored.results.forEach(({ predictions: [score] }, index) => {
    const [first] = made.results[index].predictions;
    answers[index].check = score?.log_prob ?? null;
    if (score && first && first.canonical !== score.canonical) answers[index].gives = { smiles: first.canonical, log_prob: first.log_prob };
  });
  show();
}

async function predictNext(step, answer, molecule) {
  remember();
  step.chosen = step.answers.indexOf(answer);
  step.open = false;
  if (!molecule.step || molecule.step.error) {
    molecule.step = newStep(molecule.smiles, $("model").value, Number($("count").value));
    ask(molecule.step);
  }
  show();
  goTo(molecule.step.id);
}

function goTo(id) {
  $(id).focus({ preventScroll: true });
  $(id).scrollIntoView({ behavior: "smooth" });
}

// ---- Work that outlives the page, and undo

/** Note the route as it is, before a change. */
function remember() {
  past = [...past.slice(-29), JSON.stringify(root && plain(root))];
}

function keep() {
  const form = { smiles: $("smiles").value, model: $("model").value, count: $("count").value, salts: $("salts").checked };
  const text = JSON.stringify({ form, root: root && plain(root), past, routes });
  try {
    sessionStorage.setItem("work", text); // of this tab
    localStorage.setItem("work", text); // of the last one
  } catch { // there is no room, or storage is forbidden: the page works without
  }
}

/** Show the work of this tab, or of the last one. */
function restore() {
  let kept = null;
  try {
    kept = JSON.parse(sessionStorage.getItem("work") ?? localStorage.getItem("work"));
  } catch { // as none
  }
  if (!kept) return;
  $("smiles").value = kept.form.smiles;
  if (models.has(kept.form.model)) $("model").value = kept.form.model;
  $("count").value = kept.form.count;
  $("salts").checked = kept.form.salts;
  [past, routes] = [kept.past, kept.routes];
  begin(kept.root && revive(kept.root));
}

/** A step as `plain` wrote it, with what it still has to ask. */
function revive(saved) {
  if (typeof saved.smiles !== "string" || typeof saved.model !== "string") throw new TypeError("not a step");
  const step = newStep(saved.smiles, saved.model, saved.count ?? Number($("count").value));
  Object.assign(step, { error: saved.error ?? "", note: saved.note ?? "", open: saved.open ?? false });
  step.chosen = Math.max(0, (saved.answers ?? []).findIndex((answer) => answer.chosen));
  step.answers = saved.answers?.map((answer) => ({
    ...answer,
    check: answer.check ?? undefined,
    queried: null,
    molecules: answer.molecules.map((each) => ({ smiles: each.smiles, svg: "", step: each.step && revive(each.step) })),
  })) ?? null;
  if (!step.answers && !step.error) ask(step);
  return step;
}

/** Make a step the whole route; a search for another one ends. */
function begin(step) {
  search?.abort();
  root = step;
  $("save").disabled = !step;
  $("form").classList.toggle("folded", Boolean(step));
  show();
}

function undo() {
  const before = JSON.parse(past.pop() ?? "null");
  if (routes[0]?.smiles !== before?.smiles) routes = []; // of another target
  begin(before && revive(before));
  say("undone");
}

async function openFile() {
  const [file] = $("file").files;
  $("file").value = ""; // so that it can be opened again
  try {
    const opened = revive(JSON.parse(await file.text()));
    remember();
    routes = [];
    $("smiles").value = opened.smiles;
    begin(opened);
  } catch {
    $("form-error").textContent = `${file.name} is not a route that this page saved.`;
  }
}

// ---- Plans

/** Let the server search for routes; its lines say how far it is, the last one has them. */
async function plan() {
  const smiles = wanted();
  if (!smiles) return;
  const stop = search = new AbortController();
  const told = $("planning").querySelector("span");
  $("cancel").onclick = () => stop.abort();
  $("plan").disabled = true;
  $("planning").hidden = false;
  $("form").classList.add("folded"); // so that a phone shows how far it is
  told.textContent = "Waiting for other searches …";
  try {
    const response = await request("v1/plan", { smiles }, stop.signal);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let [text, found] = ["", {}];
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      const lines = (text + part.value).split("\n");
      text = lines.pop();
      for (const line of lines) found = JSON.parse(line);
      if (found.seconds) told.textContent = `Searching: ${found.expansions} molecules looked at in ${found.seconds.toFixed(0)} s …`;
    }
    showPlan(found);
  } catch (error) {
    if (!stop.signal.aborted) $("form-error").textContent = error instanceof Refused ? error.message : "The search was cut off; try again.";
  } finally {
    $("plan").disabled = false;
    $("planning").hidden = true;
  }
}

function showPlan(found) {
  const looked = `${found.expansions} molecules looked at in ${found.seconds.toFixed(0)} s`;
  const name = [...Object.values(found.names), ...Object.values(found.bought).map((each) => `bought as ${each}`)].join(", ");
  if (found.error) $("form-error").textContent = found.error;
  else if (!found.routes.length) $("form-error").textContent = `No route from molecules for sale was found: ${[looked, found.stopped].filter(Boolean).join(", ")}.${found.missing.length ? ` Not for sale: ${found.missing.join(", ")}.` : ""}`;
  else if (!found.routes[0].steps.length) $("form-error").textContent = `The target is for sale${name ? `: ${name}` : ""}.`;
  else {
    remember();
    routes = found.routes.map(planned);
    begin(revive(routes[0]));
    say(`${routes.length} routes, ${looked}`);
    root.answers[0].drawing.then(() => $("route").scrollIntoView({ behavior: "smooth" }));
  }
}

/** A route of the server as `plain` would write it. */
function planned(route) {
  const made = new Map();
  for (const each of route.steps) {
    const [reactants, product] = each.reaction.split(">>");
    made.set(product, { reactants, log_prob: each.log_prob, racemic: each.racemic });
  }
  const model = [...models.values()].find((each) => each.task === "retro").name;
  const stepOf = (smiles) => {
    const { reactants, log_prob, racemic } = made.get(smiles);
    const molecules = reactants.split(".").map((each) => ({ smiles: each, step: made.has(each) ? stepOf(each) : null }));
    return { smiles, model, answers: [{ smiles: reactants, canonical: reactants, log_prob, finished: true, racemic, chosen: true, molecules }] };
  };
  return { ...stepOf(route.steps.at(-1).reaction.split(">>")[1]), score: route.log_prob };
}

// ---- Views

/** An element: h("p", { class: "faint" }, "text", child). Functions are listeners. */
function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

/** A drawing as an element, read as the image that it is. */
function drawing(svg) {
  if (!svg) return null;
  const element = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  element.setAttribute("aria-hidden", "true");
  return document.importNode(element, true);
}

function show() {
  const focused = document.activeElement?.dataset?.name;
  $("route").hidden = root === null && !past.length;
  $("undo").disabled = !past.length;
  $("tree").replaceChildren(...(root ? [stepView(root)] : []));
  const shown = routes.length > 1 && root ? String(written(plain(root))) : "";
  $("routes").replaceChildren(...(routes.length > 1 ? routes.map((route, index) => routeView(route, index, shown)) : []));
  $("overview").replaceChildren(...(root && reactions(root).length > 1 ? [drawing(routeDrawing())] : []));
  if (focused) document.querySelector(`[data-name="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  keep();
}

/** The reactions of a route, as `plain` writes it. */
function written(step) {
  const answer = step.answers?.find((each) => each.chosen);
  if (!answer) return [];
  return [`${answer.canonical}>>${step.smiles}`, ...answer.molecules.flatMap((each) => (each.step ? written(each.step) : []))];
}

/** A button that shows a route of the plan; it is pressed if the page shows just that one. */
function routeView(route, index, shown) {
  const choose = () => {
    remember();
    begin(revive(route));
  };
  const isShown = String(written(route)) === shown;
  return h("button", { type: "button", "data-name": `route ${index}`, "aria-pressed": String(isShown), click: choose, title: `Probability ${percent(route.score)}` }, `Route ${index + 1}`);
}

function stepView(step) {
  const chosen = step.answers?.[step.chosen];
  const queried = h("figure", { class: "query" });
  const point = (answer) =>
    queried.replaceChildren(...(answer?.queried ?? []).map((each) => drawing(each.svg)), h("code", {}, step.smiles));
  point(chosen);
  const reopen = () => {
    step.open = true;
    show();
  };
  const shown = (step.answers ?? []).filter((answer) => step.open || answer === chosen);
  const hidden = (step.answers?.length ?? 0) - shown.length;
  const what = isForward(step) ? "What these molecules give" : step === root ? "How to make the target" : "How to make this reactant";
  const parts = [
    h("h3", { id: step.id, tabindex: -1, "data-name": step.id }, what, h("small", {}, ` as ${step.model} predicts`)),
    step.error ? h("p", { class: "error", role: "alert" }, step.error) : null,
    step.note ? h("p", { class: "note" }, step.note) : null,
    queried,
    step.answers || step.error
      ? h("ol", { class: "answers" }, ...shown.map((answer) => answerView(step, answer, point)))
      : h("p", { class: "waiting" }, "Predicting …"),
    hidden ? h("button", { type: "button", class: "more", "data-name": `more ${step.id}`, click: reopen }, `${hidden} other answers`) : null,
  ];
  const view = h("section", { class: "step", "aria-labelledby": step.id }, ...parts);
  const expanded = (chosen?.molecules ?? []).filter((molecule) => molecule.step);
  if (!expanded.length) return view;
  return h("div", {}, view, h("div", { class: "children" }, ...expanded.map((molecule) => stepView(molecule.step))));
}

function answerView(step, answer, point) {
  drawAnswer(step, answer);
  const rank = step.answers.indexOf(answer);
  const isChosen = rank === step.chosen;
  const text = answer.canonical ?? answer.smiles;
  const choose = () => {
    remember();
    step.chosen = rank;
    show();
  };
  const name = `${step.id} ${rank}`;
  return h(
    "li",
    { class: isChosen ? "answer chosen" : "answer", pointerenter: () => point(answer), focusin: () => point(answer), pointerleave: () => point(step.answers[step.chosen]) },
    h(
      "div",
      { class: "share" },
      h("b", {}, `${rank + 1}.  ${percent(answer.log_prob)}`),
      h("button", { type: "button", "data-name": `copy ${name}`, title: "Copy SMILES", click: (event) => copy(text, event.target) }, "Copy"),
      h("button", { type: "button", "data-name": `choose ${name}`, "aria-pressed": String(isChosen), click: choose }, isChosen ? "In the route" : "Use in route"),
    ),
    h("div", { class: "track" }, h("i", { style: `width:${percent(answer.log_prob).replace(" ", "")}` })),
    answer.canonical === null
      ? h("p", { class: "error" }, answer.finished ? "not a molecule to RDKit" : "unfinished")
      : h("div", { class: "molecules" }, ...(answer.molecules ?? []).map((molecule) => moleculeView(step, answer, molecule, name))),
    answer.check == null ? null : h("p", { class: "check" }, `Forward check: ${percent(answer.check)}`),
    answer.racemic?.length ? h("p", { class: "check" }, `Racemic or unspecified: ${answer.racemic.join(", ")}`) : null,
    answer.gives ? h("p", { class: "check" }, `First answer instead: ${percent(answer.gives.log_prob)}`, h("code", {}, answer.gives.smiles)) : null,
    h("code", {}, text),
  );
}

const sale = (molecule) => (molecule.for_sale == null ? "" : `for sale${molecule.for_sale ? `: ${molecule.for_sale}` : ""}`);

function moleculeView(step, answer, molecule, name) {
  const label = `Predict from ${molecule.smiles}`;
  return h(
    "button",
    {
      type: "button",
      class: molecule.step ? "molecule expanded" : "molecule",
      "data-name": `${name} ${answer.molecules.indexOf(molecule)}`,
      "aria-label": [label, sale(molecule)].filter(Boolean).join(", "),
      title: label,
      click: () => predictNext(step, answer, molecule),
    },
    drawing(molecule.svg) ?? h("code", {}, molecule.smiles),
    sale(molecule) ? h("small", { class: "sale" }, sale(molecule)) : null,
  );
}

function say(text) {
  $("status").textContent = text;
}

async function copy(text, button) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
  } else { // a page that came neither by https nor from this machine
    const field = h("textarea", { class: "unseen" }, text);
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  button.textContent = "Copied";
  say(`copied ${text}`);
  setTimeout(() => (button.textContent = "Copy"), 1200);
}

// ---- Exports

/** The chosen reactions below a step, in the order of their requests. */
function reactions(step) {
  const answer = step.answers?.[step.chosen];
  if (!answer?.canonical) return [];
  const [left, right] = isForward(step) ? [step.smiles, answer.canonical] : [answer.canonical, step.smiles];
  const expanded = (answer.molecules ?? []).filter((molecule) => molecule.step);
  return [{ step, answer, left, right }, ...expanded.flatMap((molecule) => reactions(molecule.step))];
}

function plain(step) {
  return {
    smiles: step.smiles,
    model: step.model,
    count: step.count,
    open: step.open,
    error: step.error || null,
    note: step.note || null,
    answers: step.answers?.map((answer, rank) => ({
      smiles: answer.smiles,
      canonical: answer.canonical,
      log_prob: answer.log_prob,
      finished: answer.finished,
      check: answer.check ?? null,
      gives: answer.gives ?? null,
      racemic: answer.racemic ?? [],
      chosen: rank === step.chosen,
      molecules: (answer.molecules ?? []).map((molecule) => ({
        smiles: molecule.smiles,
        step: molecule.step ? plain(molecule.step) : null,
      })),
    })) ?? null,
  };
}

/** A row a reaction; a spreadsheet runs no cell, as none of SMILES or numbers is a formula. */
function table() {
  const rows = reactions(root).map(({ step, answer, left, right }) => [
    left, right, step.model, Math.exp(answer.log_prob).toFixed(4), answer.check == null ? "" : Math.exp(answer.check).toFixed(4),
    (answer.molecules ?? []).filter((each) => each.for_sale != null).map((each) => each.smiles).join("."),
  ]);
  const cell = (text) => `"${text.replaceAll('"', '""')}"`;
  return [["reactants", "product", "model", "probability", "forward_check", "for_sale"], ...rows].map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

const SIZE = { width: 200, height: 138, across: 290, down: 176 };

/** The route as one drawing: products at the left, reactants at the right. */
function routeDrawing() {
  let parts, leaves, deepest;
  let scale = 1; // of all molecules alike, so that the largest fits
  const text = (value) => value.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);

  function place(drawn, smiles, step, sold, depth) {
    const answer = step?.answers?.[step.chosen];
    deepest = Math.max(deepest, depth);
    const molecules = (answer?.canonical && answer.molecules) || [];
    const below = molecules.map((each) => {
      const next = each.step?.answers?.[each.step.chosen];
      return place(next?.queried ?? [each], each.smiles, each.step, each.step ? "" : sale(each), depth + 1);
    });
    const row = below.length ? (below[0] + below.at(-1)) / 2 : leaves++;
    const [x, y] = [20 + depth * SIZE.across, 20 + row * SIZE.down];
    const wide = SIZE.width / drawn.length; // side by side
    scale = Math.min(scale, ...drawn.map(({ svg }) => fitting(svg, wide)));
    const shown = drawn.map(({ svg }, index) => nested(svg, x + index * wide, y, wide, scale));
    const label = (words, line) => `<text x="${x + SIZE.width / 2}" y="${y + SIZE.height + line}">${text(short(words))}</text>`;
    parts.push(`<g${step ? ` data-step="${step.id}"` : ""}>${shown.join("")}${label(smiles, 14)}${label(sold, 26)}</g>`);
    const [from, middle] = [x + SIZE.width, y + SIZE.height / 2];
    for (const each of below) {
      const to = 20 + each * SIZE.down + SIZE.height / 2;
      parts.push(`<path d="M${from + 6} ${middle}C${from + 45} ${middle} ${from + 40} ${to} ${from + 84} ${to}"/>`);
    }
    if (below.length) parts.push(`<text class="share" x="${from + 32}" y="${middle - 5}">${percent(answer.log_prob)}</text>`);
    return row;
  }

  const answer = root.answers?.[root.chosen];
  for (const _ of ["find the scale", "draw"]) {
    [parts, leaves, deepest] = [[], 0, 0];
    place(answer?.queried ?? [{ svg: "" }], root.smiles, root, "", 0);
  }
  const [width, height] = [deepest * SIZE.across + SIZE.width + 40, leaves * SIZE.down + 30];
  return `<svg xmlns="http://www.w3.org/2000/svg" class="whole" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" color="#1c2530" font-family="sans-serif" font-size="10" text-anchor="middle">
<rect width="100%" height="100%" fill="#fff"/>
<style>.whole > path { fill: none; stroke: #9aa8b5; } .whole text:not([class^=atom]) { fill: #5c6b7a; } .whole .share { font-weight: bold; paint-order: stroke; stroke: #fff; stroke-width: 5px; }</style>
${parts.join("\n")}
</svg>
`;
}

const short = (smiles) => (smiles.length > 38 ? `${smiles.slice(0, 36)}…` : smiles);

const DRAWN = /width="([\d.]+)" height="([\d.]+)"/;

/** The scale at which a drawing fits into its place, which is `wide`. */
function fitting(svg, wide) {
  const [, width, height] = DRAWN.exec(svg) ?? [];
  return width ? Math.min(1, wide / width, SIZE.height / height) : 1;
}

function nested(svg, x, y, wide, scale) {
  const [, width, height] = DRAWN.exec(svg) ?? [];
  if (!width) return "";
  const [across, down] = [scale * width, scale * height];
  const at = `x="${x + (wide - across) / 2}" y="${y + (SIZE.height - down) / 2}"`;
  return svg.replace(DRAWN, `${at} width="${across}" height="${down}"`);
}

async function picture() {
  const image = new Image();
  image.src = URL.createObjectURL(new Blob([routeDrawing()], { type: "image/svg+xml" }));
  await image.decode();
  const canvas = h("canvas", { width: 2 * image.width, height: 2 * image.height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(image.src);
  return new Promise((made) => canvas.toBlob(made, "image/png"));
}

const EXPORTS = {
  json: () => new Blob([`${JSON.stringify(plain(root), null, 1)}\n`], { type: "application/json" }),
  rsmi: () => new Blob(reactions(root).map(({ left, right }) => `${left}${left.includes(">") ? ">" : ">>"}${right}\n`), { type: "text/plain" }),
  csv: () => new Blob([table()], { type: "text/csv" }),
  svg: () => new Blob([routeDrawing()], { type: "image/svg+xml" }),
  png: picture,
};

async function save(form) {
  const url = URL.createObjectURL(await EXPORTS[form]());
  h("a", { href: url, download: `route.${form}` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// ---- The editor: what is drawn is written, what is written is drawn

/** What its buttons do, two a row; those with a letter say it themselves. */
const TOOLS = [
  ["Clear all", "Undo"], ["Lay out anew", "Zoom and turn"], ["Select"], [], ["Delete"], ["Bond", "Chain"], ["Wedge up", "Wedge down"],
  ["Ring of 3", "Ring of 4"], ["Ring of 5", "Ring of 6"], ["Ring of 7", "Benzene"], ["Charge +", "Charge −"],
];
const TOOL_PIXELS = 21;

function nameTool(event) {
  const box = $("editor").getBoundingClientRect();
  const [column, row] = [event.clientX - box.x - 2, event.clientY - box.y - 2].map((at) => Math.floor(at / TOOL_PIXELS));
  $("editor").title = TOOLS[row]?.[column] ?? "";
}

async function loadEditor() {
  const { CanvasEditor, Molecule } = await import("./openchemlib.js");
  $("editor").replaceChildren();
  editor = new CanvasEditor($("editor"));
  editor.setOnChangeListener(({ type, isUserEvent }) => {
    if (!isUserEvent || type !== "molecule") return;
    $("smiles").value = editor.getMolecule().toIsomericSmiles();
    $("smiles-error").textContent = "";
  });
  $("editor").addEventListener("pointermove", nameTool);
  const draw = () => {
    try {
      editor.setMolecule(Molecule.fromSmiles($("smiles").value.trim().replaceAll(">", ".")));
    } catch { // the server says why, in its answer
    }
  };
  let typed;
  $("smiles").addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(draw, 300);
  });
  if ($("smiles").value) draw();
}

// ---- The form

/** What is asked about, or nothing: then the page says so. */
function wanted() {
  const smiles = $("smiles").value.trim();
  $("form-error").textContent = "";
  $("ask-product").hidden = true;
  $("smiles-error").textContent = smiles ? "" : "Draw a molecule, or paste its SMILES.";
  if (!smiles) $("smiles").focus();
  return smiles;
}

async function submit(event) {
  event.preventDefault();
  const button = $("form").querySelector("button.main");
  if (button.disabled) return; // a key submits too
  const smiles = wanted();
  const count = Number($("count").value);
  if (!smiles) return;
  if (!Number.isInteger(count) || count < 1 || count > Number($("count").max)) {
    $("form-error").textContent = `Answers: a whole number from 1 to ${$("count").max}.`;
    $("count").focus();
    return;
  }
  button.disabled = true;
  try {
    if ($("key").value) sessionStorage.setItem("key", $("key").value);
    if (!models.size) await loadModels();
    remember();
    const [before, step] = [root, newStep(smiles, $("model").value, count)];
    routes = [];
    begin(step);
    await ask(step);
    if (step.error && !step.answers?.length) { // it is about what was written, and is said there
      past.pop();
      begin(before);
      $("form").classList.remove("folded");
      $("smiles-error").textContent = step.error;
      $("ask-product").hidden = isForward(step) || !smiles.includes(".") || !productModel();
      ($("ask-product").hidden ? $("smiles") : $("ask-product")).focus();
    }
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    $("form-error").textContent = error.message;
  } finally {
    button.disabled = false;
  }
}

$("form").addEventListener("submit", submit);
$("ask-product").addEventListener("click", () => {
  $("model").value = productModel().name;
  $("form").requestSubmit();
});
$("smiles").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  $("form").requestSubmit();
});
$("form").addEventListener("change", keep);
$("plan").addEventListener("click", plan);
$("unfold").addEventListener("click", () => $("form").classList.remove("folded"));
$("undo").addEventListener("click", undo);
$("open").addEventListener("click", () => $("file").click());
$("file").addEventListener("change", openFile);
$("new").addEventListener("click", () => {
  if (root) remember();
  routes = [];
  $("smiles").value = "";
  editor?.clearAll();
  begin(null);
  $("smiles").focus();
});
$("save").addEventListener("change", () => {
  save($("save").value);
  $("save").value = "";
});
$("overview").addEventListener("click", (event) => {
  const step = event.target.closest("[data-step]")?.dataset.step;
  if (step) goTo(step);
});
loadModels().then(restore).catch((error) => ($("form-error").textContent = error.message));
loadEditor().catch(() => ($("editor").textContent = "The editor cannot be shown here; paste SMILES instead."));
