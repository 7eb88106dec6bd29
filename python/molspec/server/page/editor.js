// The editor: what is drawn is written, what is written is drawn. Its own small tools, which have no
// names, are hidden; buttons with names press them.

import { $, h, image } from "./dom.js";
import { layout } from "./draw.js";
import { partsOf } from "./work.js";

/** OpenChemLib's tools stand in two columns, so many pixels apart. */
const PIXELS = 21;
const ring = (corners) => {
  const points = Array.from({ length: corners }, (_, corner) => (2 * Math.PI * corner) / corners - Math.PI / 2);
  return `M${points.map((angle) => `${(12 + 8 * Math.cos(angle)).toFixed(1)} ${(12 + 8 * Math.sin(angle)).toFixed(1)}`).join("L")}Z`;
};
/** Row and column, name, and the path of the picture, or letters. "!" does something at once. */
const TOOLS = [
  [5, 0, "Bond", "M5 19L19 5"], [5, 1, "Chain", "M3 15l6-6 6 6 6-6"], [6, 0, "Wedge up", "M5 19L16 4l4 4Z"], [6, 1, "Wedge down", "M5 19l1 1M8 15l2 2M11 11l3 3M14 7l4 4M17 4l4 4"],
  [7, 0, "Ring of 3", ring(3)], [7, 1, "Ring of 4", "M5 5h14v14H5Z"], [8, 0, "Ring of 5", ring(5)], [8, 1, "Ring of 6", ring(6)], [9, 0, "Ring of 7", ring(7)],
  [9, 1, "Benzene", `${ring(6)}M12 7.5a4.5 4.5 0 1 0 .01 0`],
  [11, 0, "Carbon", "C"], [12, 0, "Nitrogen", "N"], [13, 0, "Oxygen", "O"], [13, 1, "Sulphur", "S"], [12, 1, "Phosphorus", "P"], [14, 0, "Fluorine", "F"], [14, 1, "Chlorine", "Cl"],
  [15, 0, "Bromine", "Br"], [15, 1, "Iodine", "I"], [11, 1, "Silicon", "Si"], [16, 0, "Hydrogen", "H"], [16, 1, "Another atom", "…"], [10, 0, "Charge +", "+"], [10, 1, "Charge −", "−"],
  [2, 0, "Select", "M5 8V5h3M11 5h3M17 5h2v3M19 11v3M19 17v2h-3M13 19h-3M7 19H5v-3M5 13v-2"], [4, 0, "Delete", "M9 19L4 14 14 4l6 6-9 9ZM9 9l6 6"],
  [1, 1, "Zoom and turn", "M4 10V4h6M4 4l16 16M20 14v6h-6"], [1, 0, "Lay out anew!", "M12 3v5M12 16v5M3 12h5M16 12h5M6 6l3 3M15 15l3 3M18 6l-3 3M9 15l-3 3"],
  [0, 1, "Undo in the editor!", "M9 5L4 10l5 5M4 10h10a6 6 0 0 1 0 10h-3"], [0, 0, "Clear all!", "M6 6l12 12M18 6L6 18"],
];

/** Press OpenChemLib's own tool. */
function press(canvas, row, column) {
  const box = canvas.getBoundingClientRect();
  const at = { clientX: box.x + (column + 0.5) * PIXELS + 2, clientY: box.y + (row + 0.5) * PIXELS + 2, pointerId: 1, bubbles: true, composed: true };
  canvas.dispatchEvent(new PointerEvent("pointerdown", at));
  canvas.dispatchEvent(new PointerEvent("pointerup", at)); // it listens at the document
}

function tool(canvas, [row, column, called, picture]) {
  const [name, isAction] = [called.replace("!", ""), called.endsWith("!")];
  const icon = picture.length > 2 ? image(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" width="24" height="24" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linejoin="round"><path d="${picture}"/></svg>`) : picture;
  const click = () => {
    press(canvas, row, column);
    if (isAction) return;
    for (const each of $("tools").children) if (each.hasAttribute("aria-pressed")) each.setAttribute("aria-pressed", each === button);
  };
  const button = h("button", { type: "button", title: name, "aria-label": name, "aria-pressed": isAction ? null : String(name === "Bond"), click }, icon);
  return button;
}

/** Fill #editor and #tools; returns { clear, draw }. */
export async function loadEditor() {
  const { CanvasEditor, Molecule } = await import("./openchemlib.js");
  $("editor").replaceChildren();
  const editor = new CanvasEditor($("editor"));
  const canvas = $("editor").firstElementChild.shadowRoot.querySelector("canvas");
  Object.assign(canvas.style, { position: "absolute", opacity: "0", pointerEvents: "none" });
  $("tools").replaceChildren(...TOOLS.map((each) => tool(canvas, each)));
  editor.setOnChangeListener(({ type, isUserEvent }) => {
    if (!isUserEvent || type !== "molecule") return;
    $("smiles").value = editor.getMolecule().toIsomericSmiles();
    $("smiles-error").textContent = "";
  });
  const draw = async () => {
    const smiles = $("smiles").value.trim();
    const found = await layout(partsOf(smiles).join("."));
    if (found && smiles === $("smiles").value.trim()) editor.setMolecule(Molecule.fromIDCode(found.idCode, found.coordinates));
  };
  if ($("smiles").value) draw();
  return { clear: () => editor.clearAll(), draw };
}
