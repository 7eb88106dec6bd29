// The page: draw or paste a molecule, predict, and click on an answer to predict further.
//
// A step is one molecule and its answers: { smiles, model, answers, chosen, error }. An answer
// has the molecules that it is drawn as; each may have a step of its own. The steps of chosen
// answers are the route. The whole tree is drawn anew when anything in it changes.

const $ = (id) => document.getElementById(id);
const models = new Map(); // by name, as /v1/models says
let root = null; // the first step
let steps = 0; // numbered, for their names in the document
let editor = null;

// ---- The server

class Refused extends Error {}

/** Ask the server; throws Refused with what it says. */
async function call(path, body) {
  const headers = { "Content-Type": "application/json" };
  const key = sessionStorage.getItem("key");
  if (key) headers["X-API-Key"] = key;
  let response;
  try {
    response = await fetch(path, body ? { method: "POST", headers, body: JSON.stringify(body) } : { headers });
  } catch {
    throw new Refused("The server cannot be reached.");
  }
  if (response.ok) return response.json().catch(() => { throw new Refused("The server's answer is not JSON."); });
  $("key-field").hidden = $("key-field").hidden && response.status !== 401;
  const detail = (await response.json().catch(() => ({}))).detail;
  throw new Refused(Array.isArray(detail) ? detail.map((each) => each.msg).join("; ") : detail || response.statusText || `status ${response.status}`);
}

async function loadModels() {
  const served = await call("/v1/models");
  const before = $("model").value;
  models.clear();
  for (const model of served.models) models.set(model.name, model);
  $("model").replaceChildren(...served.models.map((model) => new Option(called(model), model.name)));
  const first = served.models.find((model) => model.task === "retro") ?? served.models[0];
  $("model").value = models.has(before) ? before : first.name;
  $("count").max = served.limits.n_best;
}

function called(model) {
  const does = { retro: "reactants", product: "products" }[model.task];
  return does ? `${model.name}: ${does}` : model.name;
}

// ---- Steps

/** Ask about a molecule; the step is shown at once, its answers when they are there. */
async function predict(smiles, model, count) {
  const step = { id: `step-${++steps}`, smiles, model, answers: null, chosen: 0, open: true, error: "" };
  const done = (async () => {
    try {
      const { results } = await call("/v1/predict", { model, queries: [smiles], n_best: count, keep_salts: $("salts").checked });
      const [result] = results;
      step.error = result.error ?? (result.predictions.length ? "" : "No answer.");
      step.note = result.note ?? "";
      step.answers = result.predictions.map((prediction) => ({
        ...prediction,
        probability: Math.exp(prediction.log_prob),
        molecules: null,
        queried: null,
      }));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      step.error = error.message;
    }
    say(step.error || `${step.answers.length} answers for ${smiles}`);
    show();
    await Promise.all((step.answers ?? []).map((answer) => drawAnswer(step, answer)));
  })();
  return { step, done };
}

const productModel = () => [...models.values()].find((model) => model.task === "product");
const isForward = (step) => models.get(step.model)?.task === "product";

/** Let the server draw an answer: its molecules, and the queries beside them. */
async function drawAnswer(step, answer) {
  if (answer.canonical === null) return;
  const [smiles, product] = isForward(step)
    ? [step.smiles.replaceAll(">", "."), answer.canonical]
    : [answer.canonical, step.smiles];
  try {
    const drawings = await call("/v1/draw", { smiles, product });
    answer.molecules = isForward(step) ? [drawings.product] : drawings.molecules;
    answer.queried = isForward(step) ? drawings.molecules : [drawings.product];
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    answer.molecules = answer.canonical.split(".").map((text) => ({ smiles: text, svg: "" }));
  }
  show();
}

async function predictNext(step, answer, molecule) {
  step.chosen = step.answers.indexOf(answer);
  step.open = false;
  if (!molecule.step || molecule.step.error) {
    const request = await predict(molecule.smiles, $("model").value, Number($("count").value));
    molecule.step = request.step;
  }
  show();
  $(molecule.step.id).focus();
  $(molecule.step.id).scrollIntoView({ block: "nearest", behavior: "smooth" });
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

/** A drawing of the server's as an element, read as the image that it is. */
function drawing(svg) {
  if (!svg) return null;
  const element = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  element.setAttribute("aria-hidden", "true");
  return document.importNode(element, true);
}

function show() {
  const focused = document.activeElement?.dataset?.name;
  $("route").hidden = root === null;
  $("tree").replaceChildren(...(root ? [stepView(root)] : []));
  if (focused) document.querySelector(`[data-name="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
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
  const parts = [
    h("h3", { id: step.id, tabindex: -1, "data-name": step.id }, `${isForward(step) ? "Products" : "Reactants"}, by ${step.model}`),
    step.error ? h("p", { class: "error", role: "alert" }, step.error) : null,
    step.note ? h("p", { class: "faint" }, step.note) : null,
    queried,
    step.answers || step.error
      ? h("ol", { class: "answers" }, ...shown.map((answer) => answerView(step, answer, point)))
      : h("p", { class: "waiting" }, "Decoding …"),
    hidden ? h("button", { type: "button", class: "more", "data-name": `more ${step.id}`, click: reopen }, `${hidden} other answers`) : null,
  ];
  const view = h("section", { class: "step", "aria-labelledby": step.id }, ...parts);
  const expanded = (chosen?.molecules ?? []).filter((molecule) => molecule.step);
  if (!expanded.length) return view;
  return h("div", {}, view, h("div", { class: "children" }, ...expanded.map((molecule) => stepView(molecule.step))));
}

function answerView(step, answer, point) {
  const rank = step.answers.indexOf(answer);
  const isChosen = rank === step.chosen;
  const percent = Math.min(100, 100 * answer.probability).toFixed(1);
  const text = answer.canonical ?? answer.smiles;
  const choose = () => {
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
      h("b", {}, `${rank + 1}.  ${percent} %`),
      h("button", { type: "button", "data-name": `copy ${name}`, title: "Copy SMILES", click: (event) => copy(text, event.target) }, "Copy"),
      h("button", { type: "button", "data-name": `choose ${name}`, "aria-pressed": String(isChosen), click: choose }, isChosen ? "In route" : "Choose"),
    ),
    h("div", { class: "track" }, h("i", { style: `width:${percent}%` })),
    answer.canonical === null
      ? h("p", { class: "error" }, answer.finished ? "not a molecule to RDKit" : "unfinished")
      : h("div", { class: "molecules" }, ...(answer.molecules ?? []).map((molecule) => moleculeView(step, answer, molecule, name))),
    h("code", {}, text),
  );
}

function moleculeView(step, answer, molecule, name) {
  return h(
    "button",
    {
      type: "button",
      class: molecule.step ? "molecule expanded" : "molecule",
      "data-name": `${name} ${answer.molecules.indexOf(molecule)}`,
      "aria-label": `Predict from ${molecule.smiles}`,
      title: `Predict from ${molecule.smiles}`,
      click: () => predictNext(step, answer, molecule),
    },
    drawing(molecule.svg) ?? h("code", {}, molecule.smiles),
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
  const arrow = left.includes(">") ? ">" : ">>";
  const expanded = (answer.molecules ?? []).filter((molecule) => molecule.step);
  return [left + arrow + right, ...expanded.flatMap((molecule) => reactions(molecule.step))];
}

function plain(step) {
  return {
    smiles: step.smiles,
    model: step.model,
    error: step.error || null,
    note: step.note || null,
    answers: (step.answers ?? []).map((answer, rank) => ({
      smiles: answer.smiles,
      canonical: answer.canonical,
      log_prob: answer.log_prob,
      finished: answer.finished,
      chosen: rank === step.chosen,
      molecules: (answer.molecules ?? []).map((molecule) => ({
        smiles: molecule.smiles,
        step: molecule.step ? plain(molecule.step) : null,
      })),
    })),
  };
}

const SIZE = { width: 200, height: 138, across: 290, down: 176 };

/** The route as one drawing: products at the left, reactants at the right. */
function routeDrawing() {
  let parts, leaves, deepest;
  let scale = 1; // of all molecules alike, so that the largest fits
  const text = (value) => value.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);

  function place(drawn, smiles, answer, depth) {
    deepest = Math.max(deepest, depth);
    const molecules = (answer?.canonical && answer.molecules) || [];
    const below = molecules.map((each) => {
      const next = each.step?.answers?.[each.step.chosen];
      return place(next?.queried ?? [each], each.smiles, next, depth + 1);
    });
    const row = below.length ? (below[0] + below.at(-1)) / 2 : leaves++;
    const [x, y] = [20 + depth * SIZE.across, 20 + row * SIZE.down];
    const wide = SIZE.width / drawn.length; // side by side
    scale = Math.min(scale, ...drawn.map(({ svg }) => fitting(svg, wide)));
    const shown = drawn.map(({ svg }, index) => nested(svg, x + index * wide, y, wide, scale));
    parts.push(`<g>${shown.join("")}<text x="${x + SIZE.width / 2}" y="${y + SIZE.height + 14}">${text(short(smiles))}</text></g>`);
    const [from, middle] = [x + SIZE.width, y + SIZE.height / 2];
    for (const each of below) {
      const to = 20 + each * SIZE.down + SIZE.height / 2;
      parts.push(`<path d="M${from + 6} ${middle}C${from + 45} ${middle} ${from + 40} ${to} ${from + 84} ${to}"/>`);
    }
    if (below.length) parts.push(`<text class="share" x="${from + 32}" y="${middle - 5}">${(100 * answer.probability).toFixed(1)} %</text>`);
    return row;
  }

  const answer = root.answers?.[root.chosen];
  for (const _ of ["find the scale", "draw"]) {
    [parts, leaves, deepest] = [[], 0, 0];
    place(answer?.queried ?? [{ svg: "" }], root.smiles, answer, 0);
  }
  const [width, height] = [deepest * SIZE.across + SIZE.width + 40, leaves * SIZE.down + 30];
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" color="#1c2530" font-family="sans-serif" font-size="10" text-anchor="middle">
<rect width="100%" height="100%" fill="#fff"/>
<style>path:not([class]) { fill: none; stroke: #9aa8b5; } text:not([class^=atom]) { fill: #5c6b7a; } .share { font-weight: bold; paint-order: stroke; stroke: #fff; stroke-width: 5px; }</style>
${parts.join("\n")}
</svg>
`;
}

const short = (smiles) => (smiles.length > 38 ? `${smiles.slice(0, 36)}…` : smiles);

const DRAWN = /width='([\d.]+)px' height='([\d.]+)px'/;

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

const EXPORTS = {
  json: () => ["application/json", `${JSON.stringify(plain(root), null, 1)}\n`],
  rsmi: () => ["text/plain", `${reactions(root).join("\n")}\n`],
  svg: () => ["image/svg+xml", routeDrawing()],
};

function save(form) {
  const [type, content] = EXPORTS[form]();
  const url = URL.createObjectURL(new Blob([content], { type }));
  h("a", { href: url, download: `route.${form}` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// ---- The editor: what is drawn is written, what is written is drawn

async function loadEditor() {
  const { CanvasEditor, Molecule } = await import("/page/openchemlib.js");
  $("editor").replaceChildren();
  editor = new CanvasEditor($("editor"));
  editor.setOnChangeListener(({ type, isUserEvent }) => {
    if (!isUserEvent || type !== "molecule") return;
    $("smiles").value = editor.getMolecule().toIsomericSmiles();
    $("smiles-error").textContent = "";
  });
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

async function submit(event) {
  event.preventDefault();
  const button = $("form").querySelector("button.main");
  if (button.disabled) return; // a key submits too
  const smiles = $("smiles").value.trim();
  const count = Number($("count").value);
  $("form-error").textContent = "";
  $("ask-product").hidden = true;
  $("smiles-error").textContent = smiles ? "" : "Draw a molecule, or paste its SMILES.";
  if (!smiles) return $("smiles").focus();
  if (!Number.isInteger(count) || count < 1 || count > Number($("count").max)) {
    $("form-error").textContent = `Answers: a whole number from 1 to ${$("count").max}.`;
    return $("count").focus();
  }
  button.disabled = true;
  try {
    if ($("key").value) sessionStorage.setItem("key", $("key").value);
    if (!models.size) await loadModels();
    const request = await predict(smiles, $("model").value, count);
    root = request.step;
    show();
    await request.done;
    if (request.step.error && !request.step.answers?.length) {
      root = null; // it is about what was written, and is said there
      $("smiles-error").textContent = request.step.error;
      $("ask-product").hidden = isForward(request.step) || !smiles.includes(".") || !productModel();
      ($("ask-product").hidden ? $("smiles") : $("ask-product")).focus();
      show();
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
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("form").requestSubmit();
});
for (const button of document.querySelectorAll("[data-export]")) {
  button.addEventListener("click", () => save(button.dataset.export));
}
loadModels().catch((error) => ($("form-error").textContent = error.message));
loadEditor().catch(() => ($("editor").textContent = "The editor cannot be shown here; paste SMILES instead."));
