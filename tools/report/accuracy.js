// The errors of layers against a golden model.

const CURVE_HEIGHT = 300; // pixels

// What can be drawn. The first two decide which layer is the worst (comparison_worst() of rknnctl).
const MEASURES = [
  { key: "error", title: "Error", of: r => isCompared(r) ? r.error ?? Infinity : null, what: "the larger of |gain − 1| and a quarter of how far the tensor is off, of the layer by itself where that is known" },
  { key: "beyond", title: "Beyond rounding", of: r => isCompared(r) ? r.beyond_rounding ?? Infinity : null, what: "the same, against golden values that were rounded to the tensor's type: what rounding does not explain" },
  { key: "single", title: "Off, layer by itself", of: r => r.single ? r.single.relative ?? Infinity : null, what: "how far the tensor is off when its layer gets golden inputs" },
  { key: "entire", title: "Off, with all before", of: r => r.entire ? r.entire.relative ?? Infinity : null, what: "how far the tensor is off, with the errors of all layers before it" },
  { key: "cosine", title: "1 − cosine", of: r => r.entire ? 1 - (r.entire.cosine ?? -Infinity) : null, what: "of the angle between the tensor and the golden one, with all layers before", format: v => v === Infinity ? "not a number" : v === 0 ? "0" : v < 1e-3 ? v.toExponential(1) : significant(v, 3) },
];

function isWorst(data, row) {
  return data.accuracy.worst_index === row.index;
}

// In words, as comparison_worst() decides.
function worstRule(data) {
  const a = data.accuracy, limit = `${a.limit_percent} %`;
  if (!isNumber(a.worst_index)) return `No layer differs from the golden model by more than rounding to its type.`;
  return a.worst_by === "error"
    ? `The worst layer is the one with the largest error over the limit of ${limit}. A layer's error is ${MEASURES[0].what}.`
    : `Every layer's error is within the limit of ${limit}, so the worst layer is the one with the largest error beyond rounding. A layer's error is ${MEASURES[0].what}; beyond rounding is ${MEASURES[1].what}.`;
}

class Curve {
  constructor(state, rows) {
    Object.assign(this, { state, rows });
    const { worst_by } = state.model.data.accuracy;
    this.measure = MEASURES.find(m => m.key === (worst_by === "beyond_rounding" ? "beyond" : "error"));
    this.log = false;
    this.at = null;
    this.holder = element("div", { class: "chart-holder", tabindex: "0", role: "group", "aria-label": "Error of each layer: left and right go from layer to layer",
      keydown: event => this.onKey(event), pointermove: event => this.onMove(event), pointerleave: () => this.point(null), click: () => this.choose() });
    this.redraw = drawnToWidth(this.holder, width => this.draw(width));
    this.legend = element("div");
    this.about = element("p", { class: "dim" });
    this.root = element("figure", { id: "curve" }, this.toolbar(), this.about, this.holder, this.legend);
    state.on("select", () => this.redraw());
  }

  toolbar() {
    const there = MEASURES.filter(m => this.rows.some(r => isNumber(m.of(r))));
    return element("div", { class: "toolbar" },
      choice("What is drawn", there.map(m => [m.key, m.title, m.what]), this.measure.key, key => { this.measure = MEASURES.find(m => m.key === key); this.redraw(); }),
      choice("Scale", [["linear", "Linear"], ["log", "Log"]], "linear", v => { this.log = v === "log"; this.redraw(); }));
  }

  draw(width) {
    const left = AXIS_LEFT, right = width - CHART_RIGHT, top = CHART_TOP + 26, bottom = top + CURVE_HEIGHT;
    const values = this.rows.map(r => this.measure.of(r)), finite = values.filter(v => isNumber(v) && v > 0);
    const limit = this.measure.key === "error" ? this.state.model.data.accuracy.limit_percent / 100 : null;
    const most = largest(finite, largest([limit ?? 0]) > 4 * largest(finite) ? 0 : limit ?? 0) * 1.08 || 1e-9;
    this.x = scale(Math.max(1, this.rows.length - 1), left + 12, right - 12);
    this.axis(most, smallest(finite) ?? most / 10, bottom, top);
    const svg = chartSvg(width, bottom + AXIS_BELOW, `${this.measure.title} of each layer`);
    yAxis(svg, { values: this.yTicks, at: this.y, format: v => this.measure.format?.(v) ?? formatPercent(v, 2), title: this.measure.title, left, right, top: top - 8 });
    xAxis(svg, { values: countTicks(this.rows.length, width), at: this.x, format: v => String(v + 1), title: "tensor, in the order of execution", y: bottom, left, right });
    this.limitLine(svg, limit, most, left, right);
    svg.append(element("path", { class: "curve", d: this.path(values) }), ...this.points(values), this.cursor = element("g"));
    this.holder.replaceChildren(svg);
    this.about.textContent = `${this.measure.title}: ${this.measure.what}.`;
    this.legend.replaceChildren(legend([["line", this.measure.title], ["dot over", "over the limit"], ["dot worst", "the worst layer"], ...(limit && limit <= most ? [["dash", "the limit"]] : [])]));
  }

  axis(most, least, bottom, top) {
    if (!this.log) {
      this.y = v => scale(most, bottom, top)(Math.min(v, most));
      this.yTicks = ticks(most, 5);
      return;
    }
    const low = Math.floor(Math.log10(least)), high = Math.max(low + 1, Math.ceil(Math.log10(most)));
    this.y = v => bottom - (bottom - top) * Math.max(0, Math.min(1, ((v > 0 ? Math.log10(v) : low) - low) / (high - low)));
    const every = Math.ceil((high - low) / 6);
    this.yTicks = Array.from({ length: Math.floor((high - low) / every) + 1 }, (_, i) => 10 ** (low + i * every));
  }

  limitLine(svg, limit, most, left, right) {
    if (!limit || limit > most) return;
    const y = this.y(limit);
    svg.append(element("line", { class: "limit", x1: left, x2: right, y1: y, y2: y }),
      element("text", { class: "tick", x: right, y: y - 5, "text-anchor": "end" }, `limit ${formatPercent(limit)}`));
  }

  // With gaps where nothing was compared.
  path(values) {
    let d = "", pen = "M";
    values.forEach((v, i) => {
      if (v === null) { pen = "M"; return; }
      d += `${pen}${round(this.x(i))},${round(this.y(v))}`;
      pen = "L";
    });
    return d;
  }

  points(values) {
    const { data } = this.state.model, few = values.length <= 400;
    const marks = this.rows.map((r, i) => [r, i]).filter(([r, i]) => values[i] !== null && (few || r.over_limit || isWorst(data, r) || r.item === this.state.selected))
      .sort(([a], [b]) => isWorst(data, a) - isWorst(data, b));
    return marks.flatMap(([r, i]) => this.mark(r, round(this.x(i)), round(this.y(values[i]))));
  }

  mark(row, x, y) {
    const worst = isWorst(this.state.model.data, row), kind = worst ? "worst" : row.over_limit ? "over" : "within";
    const dot = element("circle", { class: `mark ${kind} ${row.item && row.item === this.state.selected ? "chosen" : ""}`, cx: x, cy: y, r: worst ? 6 : 3.5, "data-row": row.index });
    const width = this.holder.clientWidth, anchor = x > width * 0.7 ? "end" : x < width * 0.3 ? "start" : "middle";
    return worst ? [dot, element("text", { class: "worst-name", x, y: y - 11, "text-anchor": anchor }, `worst: ${cutStart(row.name, 28)}`)] : [dot];
  }

  // ---- the pointer, and keys ----

  onMove(event) {
    const x = event.clientX - this.holder.getBoundingClientRect().left, n = this.rows.length;
    const share = (x - this.x(0)) / Math.max(1, this.x(n - 1) - this.x(0));
    this.point(Math.max(0, Math.min(n - 1, Math.round(share * (n - 1)))), event.clientX, event.clientY);
    event.stopPropagation(); // the tooltip stays
  }

  onKey(event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
    if (event.key === "Enter") this.choose();
    else if (event.key in steps) {
      const { left, top } = this.holder.getBoundingClientRect();
      const at = Math.max(0, Math.min(this.rows.length - 1, (this.at ?? -1) + steps[event.key]));
      this.point(at, left + this.x(at), top + 60);
    } else return;
    event.preventDefault();
  }

  choose() {
    const item = this.rows[this.at]?.item;
    if (item) this.state.select(item, this);
  }

  point(at, x, y) {
    this.at = at;
    if (!this.cursor) return;
    this.cursor.replaceChildren();
    if (at === null) { hideTip(); return; }
    this.cursor.append(element("line", { class: "cursor", x1: this.x(at), x2: this.x(at), y1: CHART_TOP + 26, y2: CHART_TOP + 26 + CURVE_HEIGHT }));
    showTip(this.rowTip(this.rows[at]), x, y);
  }

  rowTip(row) {
    const lines = MEASURES.filter(m => m.of(row) !== null).map(m => [m.title, formatMeasure(m, row)]);
    return [row.name, [["operator", row.op], ["layer", row.node], ...lines, ...(isWorst(this.state.model.data, row) ? [["this is", "the worst layer"]] : [])]];
  }
}

function formatMeasure(measure, row) {
  return (measure.format ?? formatError)(measure.of(row));
}

function formatError(v) {
  return v === null || v === undefined ? MISSING : v === Infinity ? "not a number" : formatPercent(v);
}

function accuracyColumns(data) {
  const real = (key, title, hint, value) => ({ key, title, hint, number: true, value, cell: (v, r) => v === null ? MISSING : v === Infinity ? "not a number" : v.toFixed(6) });
  const measures = MEASURES.slice(0, 4).map(m => ({ key: m.key, title: m.title, hint: m.what, number: true, value: m.of, cell: v => formatError(v) }));
  const gain = r => (r.single ?? r.entire)?.gain ?? null;
  return [
    { key: "name", title: "Tensor", hint: "in the order of execution", value: r => r.index, upward: true, width: "var(--name-column)",
      cell: (v, r) => element("span", { class: "layer" }, element("span", { class: "index" }, String(v + 1)), nameElement(r.name)) },
    { key: "mark", title: "", value: r => isWorst(data, r) ? 2 : r.over_limit ? 1 : 0, number: true, width: "6em", cell: v => ["", "over limit", "worst"][v] },
    { key: "op", title: "Operator", value: r => r.op }, ...measures,
    { ...real("gain", "Gain", "of the golden values: 1 is right", gain) },
    real("cos1", "Cosine, by itself", "of the layer with golden inputs", r => r.single ? r.single.cosine : null), real("cos", "Cosine, all before", "with the errors of all layers before", r => r.entire ? r.entire.cosine : null),
    { key: "euc", title: "Euclidean", hint: "distance, with all layers before", number: true, minor: true, value: r => r.entire ? r.entire.euclidean : null, cell: v => isNumber(v) ? significant(v, 4) : MISSING },
    { key: "type", title: "Type", value: r => r.type }, { key: "dims", title: "Shape", minor: true, value: r => formatShape(r.dims) },
    { key: "node", title: "Layer", minor: true, value: r => r.node }];
}

class AccuracyView {
  constructor(state) {
    const { data, rows } = state.model, a = data.accuracy;
    const compared = rows.filter(isCompared).length, over = rows.filter(r => r.over_limit).length;
    this.state = state;
    this.table = new Table({ label: "Errors of tensors", columns: accuracyColumns(data), rows, onSelect: r => r.item && state.select(r.item, this),
      classOf: r => isWorst(data, r) ? "worst" : r.over_limit ? "over" : "" });
    this.root = element("div", { class: "view" }, element("h2", {}, "Accuracy"),
      element("p", {}, `${compared} of ${rows.length} tensors were compared with ${visible(data.golden?.model ?? "the golden model")}; ${over || "none"} ${over === 1 ? "is" : "are"} over the limit of ${a.limit_percent} %.`,
        a.sets > 1 ? ` Numbers are the worst of ${a.sets} sets of inputs.` : ""),
      element("p", { id: "rule" }, worstRule(data)), this.worst(rows, data), a.why_not_single ? element("p", { class: "dim" }, `Single layers could not be looked at: ${visible(a.why_not_single)}`) : null,
      rows.length ? new Curve(state, rows).root : null, this.table.holder);
    state.on("query", () => this.table.filter(r => !state.query || state.matches.has(r.item)));
    state.on("select", by => this.onSelect(by));
  }

  worst(rows, data) {
    const row = rows.find(r => isWorst(data, r));
    if (!row) return null;
    const show = () => { if (row.item) this.state.select(row.item, null); this.table.choose(row, false); this.table.scrollTo(row); };
    const link = button("", show, { class: "link", id: "worst" });
    link.append(nameElement(row.name));
    return element("p", {}, `Worst: ${visible(row.op)} `, link, `, ${row.over_limit ? "" : "within the limit, "}error ${formatError(MEASURES[0].of(row))}, beyond rounding ${formatError(MEASURES[1].of(row))}`);
  }

  onSelect(by) {
    const row = this.state.selected?.rows[0];
    if (by === this) return;
    this.table.choose(row ?? null, false);
    if (row) this.table.scrollTo(row);
  }

  print(on) {
    this.table.showWhole(on);
  }
}
