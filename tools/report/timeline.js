// One run, from left to right: each layer as wide as its time.

const STRIP_HEIGHT = 44; // pixels
const LABEL_WIDTH = 7; // of a letter, pixels
const ZOOM_MOST = 2000;

class Timeline {
  constructor(state) {
    this.state = state;
    this.holder = element("div", { class: "chart-holder", tabindex: "0", role: "group", "aria-label": "Time of each layer: left and right go from layer to layer",
      keydown: event => this.onKey(event) });
    this.zoom = 1;
    this.start = 0; // of what is shown, as a share of all
    this.redraw = drawnToWidth(this.holder, width => this.draw(width));
    this.root = element("figure", { class: "timeline" }, this.caption(), this.holder, operatorLegend(state, state.model.layers));
    this.holder.addEventListener("wheel", event => this.onWheel(event), { passive: false });
    for (const what of ["series", "query", "select"]) state.on(what, () => this.redraw());
  }

  caption() {
    return element("figcaption", {}, element("b", {}, "One run, layer by layer"),
      element("span", { class: "dim" }, " in the order of execution; choose a layer to see more of it"),
      element("span", { class: "zoom" }, button("−", () => this.zoomAt(0.5, 0.5), { title: "Zoom out", "aria-label": "Zoom the timeline out" }),
        button("+", () => this.zoomAt(2, 0.5), { title: "Zoom in (also Ctrl and the wheel)", "aria-label": "Zoom the timeline in" }),
        button("‹", () => this.move(-0.5), { title: "Earlier", "aria-label": "Earlier layers" }),
        button("›", () => this.move(0.5), { title: "Later", "aria-label": "Later layers" }),
        button("All", () => this.zoomAt(0, 0), { title: "Show the whole run" })));
  }

  // `at`: the place that stays, as a share of what is shown.
  zoomAt(factor, at) {
    const zoom = Math.max(1, Math.min(ZOOM_MOST, this.zoom * factor));
    this.start = this.start + at / this.zoom - at / zoom;
    this.zoom = zoom;
    this.move(0);
  }

  move(share) {
    this.start = Math.max(0, Math.min(1 - 1 / this.zoom, this.start + share / this.zoom));
    this.redraw();
  }

  onWheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const { left, width } = this.holder.getBoundingClientRect();
    this.zoomAt(event.deltaY < 0 ? 1.4 : 1 / 1.4, (event.clientX - left) / width);
  }

  onKey(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], { layers } = this.state.model;
    if (!step || event.ctrlKey || event.altKey || event.metaKey) return;
    const at = layers.indexOf(this.state.selected);
    this.state.select(layers[Math.max(0, Math.min(layers.length - 1, at + step))], this);
    event.preventDefault();
  }

  draw(width) {
    const { state } = this, all = state.series?.sum ?? 0, height = CHART_TOP + STRIP_HEIGHT + AXIS_BELOW;
    const from = all * this.start, to = from + all / this.zoom, x = v => width * (v - from) / Math.max(1e-12, to - from);
    const svg = chartSvg(width, height, "Time of each layer, in the order of execution");
    for (const part of this.parts(x, width)) svg.append(this.box(part));
    const step = ticks(to - from, Math.max(2, width / 110))[1] ?? all;
    const values = [];
    for (let v = Math.ceil(from / step) * step; v <= to * (1 + 1e-9) && values.length < 100; v += step) values.push(v);
    xAxis(svg, { values, at: x, format: v => v ? formatUs(v) : "0", title: `time (${state.series?.title ?? ""})`, y: CHART_TOP + STRIP_HEIGHT + 2, left: 0, right: width });
    this.holder.replaceChildren(svg);
  }

  // Layers in sight; those that are too thin to be seen together with their neighbours.
  parts(x, width) {
    const parts = [];
    let at = 0, thin = null;
    for (const item of this.state.model.layers) {
      const us = this.state.timeOf(item) ?? 0, left = x(at), right = x(at += us);
      if (right < 0 || left > width || us <= 0) continue;
      if (right - left >= 1.5 || item === this.state.selected) thin = null;
      else if (thin && right - thin.left < 3) {
        thin.items.push(item);
        thin.right = right;
        continue;
      }
      const part = { items: [item], left, right };
      if (right - left < 1.5) thin = part;
      parts.push(part);
    }
    return parts;
  }

  box({ items, left, right }) {
    const [item] = items, { state } = this, width = Math.max(0.75, right - left - (right - left > 3 ? 1 : 0));
    const dimmed = !items.some(i => state.matches.has(i)), chosen = items.includes(state.selected);
    const box = element("g", { class: `part ${dimmed ? "dimmed" : ""} ${chosen ? "chosen" : ""}`, click: () => state.select(item, this) },
      element("rect", { class: `op${state.model.colours.get(item.op) ?? 0}`, x: left, y: CHART_TOP, width, height: STRIP_HEIGHT }));
    const seen = Math.min(right, this.holder.clientWidth) - Math.max(0, left), room = Math.floor((seen - 8) / LABEL_WIDTH);
    if (room >= 3) box.append(element("text", { class: "on-colour", x: Math.max(0, left) + 4, y: CHART_TOP + 26 }, cut(item.op, room)));
    return withTip(box, () => items.length === 1 ? itemTip(state, item) : this.manyTip(items));
  }

  manyTip(items) {
    const us = items.reduce((sum, i) => sum + (this.state.timeOf(i) ?? 0), 0);
    return [`${items.length} short layers`, [["from", items[0].name], ["to", items.at(-1).name], ["together", formatUs(us)]]];
  }
}

function cut(text, length) {
  const t = visible(text);
  return t.length > length ? `${t.slice(0, length - 1)}…` : t;
}
