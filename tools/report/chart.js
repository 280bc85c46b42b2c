// Axes and legends, which all charts share. Charts are drawn for the width that they have, so their
// text keeps its size.

const AXIS_LEFT = 68, AXIS_BELOW = 40, CHART_TOP = 10, CHART_RIGHT = 14; // pixels

function chartSvg(width, height, label) {
  return element("svg", { class: "chart", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
}

// Where a value is, between 0 and `most`.
function scale(most, from, to) {
  return v => from + (to - from) * (most > 0 ? v / most : 0);
}

function xAxis(svg, { values, at, format, title, y, left, right }) {
  svg.append(element("line", { class: "axis", x1: left, x2: right, y1: y, y2: y }));
  for (const v of values) {
    const x = at(v), anchor = x > right - 24 ? "end" : x < left + 12 ? "start" : "middle";
    svg.append(element("line", { class: "axis", x1: x, x2: x, y1: y, y2: y + 5 }),
      element("text", { class: "tick x", x, y: y + 17, "text-anchor": anchor }, format(v)));
  }
  svg.append(element("text", { class: "axis-title", x: (left + right) / 2, y: y + 34, "text-anchor": "middle" }, title));
}

function yAxis(svg, { values, at, format, title, left, right, top }) {
  for (const v of values) {
    const y = at(v);
    svg.append(element("line", { class: "grid", x1: left, x2: right, y1: y, y2: y }),
      element("text", { class: "tick y", x: left - 6, y: y + 4, "text-anchor": "end" }, format(v)));
  }
  svg.append(element("text", { class: "axis-title", x: 4, y: top - 6 }, title));
}

// Places of round numbers on an axis that counts from 1: of 1, 10, 20, …
function countTicks(n, width) {
  return [...new Set([0, ...ticks(n, Math.max(2, width / 90)).filter(v => v > 0 && Number.isInteger(v)).map(v => v - 1)])];
}

// entries: [class of the sign, text]
function legend(entries) {
  return element("ul", { class: "legend" },
    ...entries.map(([sign, text]) => element("li", {}, element("i", { class: sign }), visible(text))));
}

function operatorLegend(state, items) {
  const there = new Set(items.map(i => i.op)), entries = [];
  for (const [op, colour] of state.model.colours) if (there.has(op)) entries.push([`dot op${colour}`, op]);
  if ([...there].some(op => !state.model.colours.has(op))) entries.push(["dot op0", "others"]);
  return legend(entries);
}
