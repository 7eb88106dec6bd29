// Of a route's picture: whether the head of each arrow points right and lies right of its number, and
// the numbers of the steps that are in the window's width, without scrolling.
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
  return { arrows, steps };
}
