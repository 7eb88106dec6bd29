// Of a route's picture: whether the head of each arrow points right and lies right of its number, and
// the numbers of the steps that are in the window's width, without scrolling; how many left edges the
// steps below it have.
() => {
  const arrows = [...document.querySelectorAll("#overview .head")].map((head, index) => {
    const [, tip, back] = /M([\d.]+) [\d.]+l(-?\d)/.exec(head.getAttribute("d"));
    const number = document.querySelectorAll("#overview .number")[index];
    return Number(tip) > Number(number.getAttribute("x")) && Number(back) < 0;
  });
  const steps = [...document.querySelectorAll("#overview .number, .step-number")].filter((each) => {
    const { left, right } = each.getBoundingClientRect();
    return each.getClientRects().length && left > 0 && right < innerWidth;
  }).map((each) => each.textContent).sort();
  const edges = new Set([...document.querySelectorAll(".step")].map((each) => each.getBoundingClientRect().left)).size;
  return { arrows, steps, edges };
}
