// What is wrong with how a page looks: pairs of texts, or of a text and a drawing, that lie over
// each other; texts of less than 11 pixels, or of a contrast below 4.5; pixels by which
// the page is wider than its window.
() => {
  const [boxes, small, pale] = [[], [], []];
  const light = (colour) => {
    const [red, green, blue] = colour.match(/[\d.]+/g).slice(0, 3).map((value) => value / 255)
      .map((value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05;
  };
  const ground = (element, { left, right, top, bottom }) => {
    const [x, y] = [(left + right) / 2, (top + bottom) / 2];
    const marks = element.closest("svg.drawing")?.querySelectorAll(".changed *") ?? [];
    for (const each of marks) {
      const r = each.getBoundingClientRect();
      if (r.left < x && x < r.right && r.top < y && y < r.bottom) return getComputedStyle(each).fill;
    }
    for (let each = element; each; each = each.parentElement) {
      if (each.matches("svg.whole") && each.querySelector(":scope > rect")) break;
      const colour = getComputedStyle(each).backgroundColor;
      if (colour !== "rgba(0, 0, 0, 0)") return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const add = (name, r, inset) => r.width > 1 && boxes.push(
    { name, left: r.left + inset, right: r.right - inset,
      top: r.top + inset, end: r.bottom - inset });
  const drawings = document.querySelectorAll("svg.drawing");
  for (const each of drawings) if (each.checkVisibility()) add("drawing", each.getBoundingClientRect(), 4);
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const parent = node.parentElement;
    const text = node.data.trim();
    if (!text || /style|script/i.test(parent.tagName) || !parent.checkVisibility()) continue;
    if (parent.closest(".unseen, select, [hidden]")) continue;
    const scale = parent.ownerSVGElement ? parent.getScreenCTM().a : 1;
    const size = scale * parseFloat(getComputedStyle(parent).fontSize);
    // A drawing may be shrunk by a part of a pixel; a molecule wider than a phone to it, in rows.
    if (size < (parent.closest(".scheme") ? 9 : 10.9)) small.push(`${text}: ${size}`);
    const { fill, color } = getComputedStyle(parent);
    const [ink, paper] = [parent.ownerSVGElement ? fill : color, ground(parent, parent.getBoundingClientRect())].map(light);
    const contrast = Math.max(ink, paper) / Math.min(ink, paper);
    if (contrast < 4.5 && !parent.closest(":disabled")) pale.push(`${text}: ${contrast.toFixed(1)}`);
    if (parent.closest("svg.drawing")) continue; // of one atom: they touch
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const rect of range.getClientRects()) add(text.slice(0, 30), rect, 0);
  }
  const common = (a, b, from, to) => Math.min(a[to], b[to]) - Math.max(a[from], b[from]);
  const over = boxes.flatMap((a, index) => boxes.slice(index + 1)
    .filter((b) => common(a, b, "left", "right") > 2 && common(a, b, "top", "end") > 3)
    .map((b) => `${a.name} over ${b.name}`));
  return { over, small, pale, wider: Math.max(0, document.documentElement.scrollWidth - innerWidth) };
}
