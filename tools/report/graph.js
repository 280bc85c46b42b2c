// The graph: boxes with operator, time, name, shape and error. Only what is in sight is drawn, and
// from afar only colours.

const ZOOM_MIN = 0.04, ZOOM_MAX = 2.5, ZOOM_TEXT = 0.42; // below the last: no text
const PRINT_NODES = 400;
const MARGIN = 300; // pixels around what is in sight

class GraphView {
  constructor(state) {
    this.state = state;
    this.colour = state.series ? "time" : "op";
    this.zoom = 1;
    this.layer = element("g");
    this.svg = element("svg", { class: "graph", role: "img", "aria-label": "The model's graph" }, this.layer);
    this.holder = element("div", { class: "graph-holder", tabindex: "0", role: "group", "aria-label": "Graph: the arrows go from layer to layer, plus and minus zoom",
      scroll: () => this.draw(), keydown: event => this.onKey(event) }, this.svg);
    this.legend = element("div");
    this.root = element("div", { class: "view-fill" }, this.toolbar(), this.holder);
    this.listen();
  }

  listen() {
    const { holder, state } = this;
    holder.addEventListener("wheel", event => this.onWheel(event), { passive: false });
    holder.addEventListener("pointerdown", event => this.onDrag(event));
    new ResizeObserver(() => this.show()).observe(holder);
    for (const what of ["series", "query"]) state.on(what, () => this.redraw());
    state.on("select", by => { if (by !== this && state.selected) this.reveal(state.selected); this.redraw(); });
  }

  toolbar() {
    const colours = [["time", "Time"], ["op", "Operator"], ["device", "Device"], ["error", "Error"]];
    const there = { time: this.state.series, op: true, device: this.state.model.items.some(i => i.device), error: this.state.model.rows.length };
    return element("div", { class: "toolbar" }, element("span", {}, "Colour "),
      choice("Colour of the boxes", colours.filter(([key]) => there[key]), this.colour, key => { this.colour = key; this.redraw(); }),
      element("span", { class: "zoom" }, button("−", () => this.zoomTo(this.zoom / 1.3), { title: "Zoom out (−)", "aria-label": "Zoom out" }),
        button("+", () => this.zoomTo(this.zoom * 1.3), { title: "Zoom in (+)", "aria-label": "Zoom in" }),
        button("Fit", () => this.fit(), { title: "The whole graph (0)" }), button("1:1", () => this.zoomTo(1), { title: "As large as text (1)" })),
      this.legend);
  }

  // Laid out when it is first seen.
  show() {
    if (!this.holder.clientWidth) return;
    if (!this.layout) {
      const { items, edges } = this.state.model;
      this.layout = new Layout(items.length, edges.map(e => [e.from.id, e.to.id]));
      this.layout.edges.forEach((e, i) => { e.tensor = edges[i].tensor; });
      this.zoomTo(1);
      this.holder.scrollLeft = this.layout.vertices[0].x * this.zoom - this.holder.clientWidth / 2;
    }
    if (this.wanted) this.reveal(this.wanted);
    this.redraw();
  }

  // ---- moving ----

  zoomTo(zoom, x = this.holder.clientWidth / 2, y = this.holder.clientHeight / 2) {
    if (!this.layout) return;
    const before = this.zoom, { holder } = this;
    this.zoom = Math.max(ZOOM_MIN, Math.min(ZOOM_MAX, zoom));
    const left = (holder.scrollLeft + x - this.margin) / before, top = (holder.scrollTop + y) / before;
    this.size();
    holder.scrollLeft = left * this.zoom + this.margin - x;
    holder.scrollTop = top * this.zoom - y;
    this.redraw();
  }

  size() {
    const { layout, zoom, holder } = this, width = layout.width * zoom;
    this.margin = this.printing ? 0 : Math.max(0, (holder.clientWidth - width) / 2);
    this.svg.setAttribute("width", this.printing ? width : Math.max(width, holder.clientWidth));
    this.svg.setAttribute("height", layout.height * zoom);
    this.layer.setAttribute("transform", `translate(${round(this.margin)},0) scale(${zoom})`);
    if (this.printing) this.svg.setAttribute("viewBox", `0 0 ${width} ${layout.height * zoom}`); // it may have to shrink
    else this.svg.removeAttribute("viewBox");
  }

  fit() {
    const { holder, layout } = this;
    this.zoomTo(Math.min(1, holder.clientWidth / layout.width, holder.clientHeight / layout.height));
  }

  onWheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const { left, top } = this.holder.getBoundingClientRect();
    this.zoomTo(this.zoom * Math.exp(-event.deltaY / 300), event.clientX - left, event.clientY - top);
  }

  // With the mouse; fingers scroll by themselves.
  onDrag(event) {
    if (event.pointerType !== "mouse" || event.button !== 0 || event.target.closest(".node")) return;
    const { holder } = this, start = [event.clientX + holder.scrollLeft, event.clientY + holder.scrollTop];
    const move = e => { holder.scrollLeft = start[0] - e.clientX; holder.scrollTop = start[1] - e.clientY; };
    holder.classList.add("dragged");
    holder.setPointerCapture(event.pointerId);
    holder.addEventListener("pointermove", move);
    holder.addEventListener("pointerup", () => {
      holder.removeEventListener("pointermove", move);
      holder.classList.remove("dragged");
    }, { once: true });
  }

  reveal(item) {
    this.wanted = null;
    if (!this.layout || !this.holder.clientWidth) { this.wanted = item; return; }
    const v = this.layout.vertices[item.id], { holder, zoom } = this;
    const x = v.x * zoom + this.margin, y = (v.y + BOX_HEIGHT / 2) * zoom;
    if (x < holder.scrollLeft + 60 || x > holder.scrollLeft + holder.clientWidth - 60) holder.scrollLeft = x - holder.clientWidth / 2;
    if (y < holder.scrollTop + 60 || y > holder.scrollTop + holder.clientHeight - 60) holder.scrollTop = y - holder.clientHeight / 2;
  }

  // ---- keys ----

  onKey(event) {
    const { key } = event, moves = { ArrowUp: "above", ArrowDown: "below", ArrowLeft: -1, ArrowRight: 1 };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (key in moves) this.step(moves[key]);
    else if (key === "+" || key === "=") this.zoomTo(this.zoom * 1.3);
    else if (key === "-") this.zoomTo(this.zoom / 1.3);
    else if (key === "0") this.fit();
    else if (key === "1") this.zoomTo(1);
    else return;
    event.preventDefault();
  }

  // Along an edge, or to the side.
  step(where) {
    const { state, layout } = this, { items } = state.model;
    if (!state.selected) return this.choose(items[0]);
    const v = layout.vertices[state.selected.id];
    if (typeof where === "number") {
      const boxes = layout.ranks[v.rank].filter(u => u.item !== undefined), next = boxes[boxes.indexOf(v) + where];
      return next && this.choose(items[next.item]);
    }
    const edge = state.model.edges.find(e => where === "above" ? e.to === state.selected : e.from === state.selected);
    return edge && this.choose(where === "above" ? edge.from : edge.to);
  }

  choose(item) {
    this.state.select(item, this);
    this.reveal(item);
    this.redraw();
  }

  // ---- drawing ----

  redraw() {
    this.drawn = null;
    this.draw();
    this.legend.replaceChildren(this.makeLegend());
  }

  draw() {
    if (!this.layout || !this.holder.clientWidth) return;
    const sight = this.inSight(), key = Object.values(sight).join();
    if (key === this.drawn) return;
    this.drawn = key;
    this.size();
    const boxes = [], far = this.zoom < ZOOM_TEXT && !this.printing;
    for (let r = sight.first; r <= sight.last; r++)
      for (const v of this.layout.ranks[r]) if (!v.lane && v.x + v.width / 2 > sight.left && v.x - v.width / 2 < sight.right) boxes.push(v);
    const edges = this.layout.edges.filter(e => e.path[0].rank <= sight.last && (e.rest ?? e.path).at(-1).rank >= sight.first);
    this.layer.replaceChildren(...far ? this.farParts(boxes, edges) : this.nearParts(boxes, edges));
  }

  inSight() {
    const { holder, zoom, layout } = this, step = BOX_HEIGHT + GAP_Y;
    if (this.printing) return { first: 0, last: layout.ranks.length - 1, left: -Infinity, right: Infinity };
    const grid = v => Math.floor(v / MARGIN) * MARGIN; // so that not every pixel of scrolling draws anew
    const left = (grid(holder.scrollLeft - this.margin) - MARGIN) / zoom, top = (grid(holder.scrollTop) - MARGIN) / zoom;
    const right = left + (holder.clientWidth + 3 * MARGIN) / zoom, bottom = top + (holder.clientHeight + 3 * MARGIN) / zoom;
    return { first: Math.max(0, Math.floor(top / step) - 1), last: Math.min(layout.ranks.length - 1, Math.ceil(bottom / step)), left, right };
  }

  nearParts(boxes, edges) {
    const chosen = this.state.selected?.id;
    const lines = edges.flatMap(e => (e.rest ? [e.path, e.rest] : [e.path]).map(path => withTip(element("path", { d: edgePath(path),
      class: `edge ${e.from === chosen || e.to === chosen ? "chosen" : ""}`, "data-from": e.from, "data-to": e.to }), () => this.edgeTip(e))));
    lines.sort((a, b) => a.classList.contains("chosen") - b.classList.contains("chosen"));
    return [...lines, ...boxes.map(v => v.pill ? this.pill(v) : this.box(v))];
  }

  edgeTip({ from, to, tensor }) {
    const { items } = this.state.model;
    return [tensor.name || "tensor", [["shape", formatTensor(tensor)], ["from", items[from].name], ["to", items[to].name]]];
  }

  // One path for all edges, one for the boxes of each colour.
  farParts(boxes, edges) {
    const parts = new Map();
    for (const v of boxes) {
      if (v.pill) continue;
      const { fill, css } = this.fillOf(this.state.model.items[v.item]), key = `${fill}|${css}`;
      if (!parts.has(key)) parts.set(key, { fill, css, d: "" });
      parts.get(key).d += `M${round(v.x - BOX_WIDTH / 2)},${v.y}h${BOX_WIDTH}v${BOX_HEIGHT}h${-BOX_WIDTH}z`;
    }
    const lines = edges.map(e => edgePath(e.path) + (e.rest ? edgePath(e.rest) : "")).join("");
    return [element("path", { class: "edge far", d: lines }),
      ...[...parts.values()].map(p => element("path", { class: `far ${p.css}`, d: p.d, style: { fill: p.fill } })), this.hitArea(boxes)];
  }

  // From afar the boxes are no elements of their own: the pointer finds them by their places.
  hitArea(boxes) {
    const find = event => {
      const { left, top } = this.svg.getBoundingClientRect();
      const x = (event.clientX - left - this.margin) / this.zoom, y = (event.clientY - top) / this.zoom;
      return boxes.find(v => !v.pill && Math.abs(v.x - x) <= BOX_WIDTH / 2 && y >= v.y && y <= v.y + BOX_HEIGHT);
    };
    const { items } = this.state.model;
    const area = element("rect", { class: "hit", width: this.layout.width, height: this.layout.height, click: event => { const v = find(event); if (v) this.choose(items[v.item]); } });
    return withTip(area, event => { const v = find(event); return v ? itemTip(this.state, items[v.item]) : ["The graph", [["zoom in", "to read names"]]]; });
  }

  // How a box is filled: `css` a class, or `fill` a colour.
  fillOf(item) {
    const dimmed = this.state.matches.has(item) ? "" : "dimmed";
    if (this.colour === "op") return { css: `op${this.state.model.colours.get(item.op) ?? 0} ${dimmed}`, fill: "" };
    if (this.colour === "device") return { css: `${item.device === "CPU" ? "on-cpu" : "on-npu"} ${dimmed}`, fill: "" };
    const heat = this.colour === "error" ? this.errorHeat(item) : this.timeHeat(item);
    return { css: dimmed, fill: `color-mix(in srgb, var(--heat) ${Math.round(heat * 60)}%, var(--box))` };
  }

  timeHeat(item) {
    this.most ??= new Map();
    const { state } = this;
    if (!this.most.has(state.series)) this.most.set(state.series, largest(state.model.items.map(i => state.timeOf(i) ?? 0), 1e-9));
    return (state.timeOf(item) ?? 0) / this.most.get(state.series);
  }

  errorHeat(item) {
    const limit = (this.state.model.data.accuracy?.limit_percent || 5) / 100;
    return Math.min(1, (item.error ?? 0) / limit);
  }

  box(v) {
    const item = this.state.model.items[v.item], { state } = this, { css, fill } = this.fillOf(item);
    const x = v.x - BOX_WIDTH / 2, right = v.x + BOX_WIDTH / 2 - 10, us = state.timeOf(item), over = item.rows.some(r => r.over_limit);
    const text = (kind, px, py, words, anchor) => element("text", { class: kind, x: px, y: v.y + py, "text-anchor": anchor }, words);
    const time = isNumber(us) ? formatUs(us) : "", error = this.noteOf(item), room = BOX_WIDTH - 24;
    const box = element("g", { class: `node ${css} ${item === state.selected ? "chosen" : ""} ${isOnCpu(item) ? "cpu" : ""}`, "data-item": item.id,
      click: () => this.choose(item) },
      element("rect", { x, y: v.y, width: BOX_WIDTH, height: BOX_HEIGHT, rx: 6, style: { fill } }),
      text("op", x + 10, 19, fitted(item.op, room - textWidth(time), cut)), text("time", right, 19, time, "end"),
      text("label", x + 10, 37, fitted(item.name || item.outputs[0]?.name, room, cutStart)),
      text("shape", x + 10, 55, fitted(formatTensor(item.outputs[0] ?? item.inputs[0]), room - textWidth(error), cut)), text(over ? "error over" : "error", right, 55, error, "end"));
    return withTip(box, () => itemTip(state, item));
  }

  // What stands at the right of the last line.
  noteOf(item) {
    if (item.error === null) return isOnCpu(item) ? "CPU" : "";
    return item.error === Infinity ? "not a number" : `error ${formatPercent(item.error, 2)}`;
  }

  pill(v) {
    const item = this.state.model.items[v.leads], y = v.y + BOX_HEIGHT / 2 - 12;
    const top = v.pill === "to" ? v.y : y + 24, bottom = v.pill === "to" ? y : v.y + BOX_HEIGHT;
    return withTip(element("g", { class: "node pill", click: () => this.choose(item) },
      element("path", { class: "edge", d: `M${round(v.x)},${top}V${bottom}` }),
      element("rect", { x: v.x - PILL_WIDTH / 2, y, width: PILL_WIDTH, height: 24, rx: 12 }),
      element("text", { class: "label", x: v.x, y: y + 16, "text-anchor": "middle" }, `${v.pill} ${cutStart(item.name, 14)}`)),
    () => [v.pill === "to" ? "goes on to" : "comes from", [["layer", item.name]]]);
  }

  makeLegend() {
    const { model } = this.state, cpu = model.onCpu.length ? [["frame-cpu", "dashed: on the CPU"]] : [];
    if (this.colour === "op") return operatorLegend(this.state, model.items.filter(i => !isPort(i)));
    if (this.colour === "device") return legend([["dot on-npu", "NPU"], ["dot on-cpu", "CPU"]]);
    if (this.colour === "error") return legend([["ramp", `no error to ${model.data.accuracy.limit_percent} % and more`], ...cpu]);
    return legend([["ramp", "no time to the slowest layer"], ...cpu]);
  }

  // On paper all of it, if that can be read.
  print(on) {
    if (!this.layout && on) this.show();
    this.printing = on && this.state.model.items.length <= PRINT_NODES;
    if (!this.layout) return;
    this.holder.classList.toggle("unprintable", on && !this.printing);
    if (this.printing) this.printed = this.zoom, this.zoom = 1;
    else if (!on && this.printed) this.zoom = this.printed;
    this.redraw();
  }
}

const measuring = document.createElement("canvas").getContext("2d");

function textWidth(text) {
  measuring.font = `600 12.5px ${getComputedStyle(document.documentElement).fontFamily}`;
  return text ? measuring.measureText(text).width + 6 : 0;
}

// As much of a text as there is room for, in pixels; shorten(text, letters) says how.
function fitted(text, room, shorten) {
  const whole = visible(text), width = textWidth(whole);
  return width <= room ? whole : shorten(whole, Math.max(2, Math.floor(whole.length * room / width) - 1));
}

// Names differ at their ends.
function cutStart(text, length) {
  const t = visible(text);
  return t.length > length ? `…${t.slice(1 - length)}` : t;
}
