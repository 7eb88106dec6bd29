// Elements of the page.

export const $ = (id) => document.getElementById(id);

/** An element: h("p", { class: "faint" }, "text", child). Functions are listeners. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

/** A drawing as an element, read as the image that it is; null if there is none. */
export function image(svg) {
  if (!svg) return null;
  const element = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  element.setAttribute("aria-hidden", "true");
  return document.importNode(element, true);
}

/** A probability with a digit that is not 0, if it is not less than 0.000001 %. */
export function percent(logProb) {
  const share = Math.min(100, 100 * Math.exp(logProb));
  return `${share.toFixed(share < 0.1 ? Math.min(6, Math.ceil(-Math.log10(share))) : 1)} %`;
}

/** Tell those who do not see the page. */
export const say = (text) => ($("status").textContent = text);

export async function copy(text, button) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
  } else { // a page that came neither by https nor from this machine
    const field = h("textarea", { class: "unseen" }, text);
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  const before = button.textContent;
  button.textContent = "Copied";
  say("copied");
  setTimeout(() => (button.textContent = before), 1200);
}
