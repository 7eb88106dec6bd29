// What is wrong with how a page looks: pairs of texts, or of a text and a drawing, that lie over
// each other; texts of less than 11 pixels; pixels by which the page is wider than its window.
() => {
  const [boxes, small] = [[], []];
  const add = (name, r, inset) => r.width > 1 && boxes.push(
    { name, left: r.left + inset, right: r.right - inset,
      top: r.top + inset, end: r.bottom - inset });
  const drawings = document.querySelectorAll("svg.drawing");
  for (const each of drawings) add("drawing", each.getBoundingClientRect(), 4);
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const parent = node.parentElement;
    const text = node.data.trim();
    if (!text || /style|script/i.test(parent.tagName) || !parent.getClientRects().length) continue;
    if (parent.closest(".unseen, select, [hidden]")) continue;
    const scale = parent.ownerSVGElement ? parent.getScreenCTM().a : 1;
    const size = scale * parseFloat(getComputedStyle(parent).fontSize);
    if (size < 10.99) small.push(`${text}: ${size}`);
    if (parent.closest("svg.drawing")) continue; // of one atom: they touch
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const rect of range.getClientRects()) add(text.slice(0, 30), rect, 0);
  }
  const common = (a, b, from, to) => Math.min(a[to], b[to]) - Math.max(a[from], b[from]);
  const over = boxes.flatMap((a, index) => boxes.slice(index + 1)
    .filter((b) => common(a, b, "left", "right") > 2 && common(a, b, "top", "end") > 3)
    .map((b) => `${a.name} over ${b.name}`));
  return { over, small, wider: Math.max(0, document.documentElement.scrollWidth - innerWidth) };
}
