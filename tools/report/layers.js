// The table of layers.

function layerColumns(state) {
  const all = [nameColumn(state), { key: "op", title: "Operator", value: i => i.op }];
  for (const s of state.model.series) all.push(timeColumn(state, s));
  all.push({ key: "share", title: "Share", hint: "of the time of all layers", number: true, value: i => state.shareOf(i), cell: v => formatPercent(v) });
  if (state.model.items.some(i => i.error !== null)) all.push(errorColumn());
  return [...all, ...costColumns(state), ...shapeColumns()].filter(c => c.always || state.model.layers.some(i => c.value(i) !== null && c.value(i) !== ""));
}

function nameColumn(state) {
  return { key: "name", title: "Layer", hint: "in the order of execution", value: i => i.id, always: true, number: false, width: "var(--name-column)", upward: true,
    cell: (v, i) => element("span", { class: "layer" }, element("span", { class: "index" }, String(v + 1)),
      element("i", { class: `dot op${state.model.colours.get(i.op) ?? 0}` }), nameElement(i.name || i.op)) };
}

function timeColumn(state, series) {
  const most = largest(state.model.layers.map(i => series.of(i) ?? 0), 1e-9);
  return { key: series.key, title: series.title, hint: `Time, ${series.what}`, number: true, width: "11em",
    value: i => series.of(i), cell: v => formatUs(v), bar: i => (series.of(i) ?? 0) / most,
    barClass: i => `op${state.model.colours.get(i.op) ?? 0}` };
}

function errorColumn() {
  return { key: "error", title: "Error", hint: "the larger of |gain − 1| and a quarter of how far it is off", number: true,
    value: i => i.error === null ? null : i.error, cell: v => v === Infinity ? "not a number" : formatPercent(v) };
}

function macUse(item) {
  const l = item.layer;
  if (l?.mac_cycles && l.total_cycles) return l.mac_cycles / l.total_cycles;
  return isNumber(item.estimate?.mac_usage) && item.estimate.macs ? item.estimate.mac_usage / 100 : null;
}

function costOf(item, key) {
  return item.layer?.[key] || item.estimate?.[key] || null;
}

// What an NPU waits for: it computes and moves data at the same time.
function limitedBy(item) {
  const ddr = costOf(item, "ddr_cycles"), npu = costOf(item, "npu_cycles");
  return ddr === null && npu === null ? null : (ddr ?? 0) > (npu ?? 0) ? "memory" : "compute";
}

function movedBytes(item) {
  const sum = (costOf(item, "read_bytes") ?? 0) + (costOf(item, "write_bytes") ?? 0);
  return sum || null;
}

function workLoad(item) {
  const work = item.layer?.core_work, sum = work?.reduce((a, b) => a + b, 0);
  return sum ? work.map(w => `${Math.round(100 * w / sum)} %`).join(" / ") : null;
}

function costColumns(state) {
  const cycles = (key, title, hint) => ({ key, title, hint, number: true, minor: true, value: i => costOf(i, key), cell: v => formatInteger(v) });
  return [
    { key: "spread", title: isSoftware(state.model.data) ? "Machine spread" : "Spread", hint: "of what was measured: half of the runs lie within", number: true, minor: true, value: i => measuredOf(i.layer, "spread_us"), cell: v => formatUs(v) },
    { key: "limit", title: "Limited by", hint: "what takes more cycles: to move its data, or to compute", value: limitedBy },
    { key: "use", title: "MAC use", hint: "of the multipliers, while the layer runs", number: true, value: macUse, cell: v => formatPercent(v) },
    { key: "macs", title: "MACs", hint: "multiplications and additions", number: true, value: i => costOf(i, "macs"), cell: v => formatCount(v) },
    { key: "moved", title: "Moved", hint: "bytes read and written", number: true, value: movedBytes, cell: v => formatBytes(v) },
    cycles("ddr_cycles", "DDR cycles", "for moving data"), cycles("npu_cycles", "NPU cycles", "for computing"), cycles("total_cycles", "Total cycles", "the larger of both"),
    { key: "cores", title: "Cores 0/1/2", hint: "how the work is divided", minor: true, value: workLoad },
  ];
}

function shapeColumns() {
  return [
    { key: "device", title: "Runs on", value: i => i.device }, { key: "type", title: "Type", value: i => i.type },
    { key: "output", title: "Output", minor: true, value: i => i.layer?.output_shapes || i.outputs.map(t => formatShape(t.shape)).join(", ") },
    { key: "input", title: "Inputs", minor: true, value: i => i.layer?.input_shapes || i.inputs.map(t => formatShape(t.shape)).join(", ") },
  ];
}

class LayersView {
  constructor(state) {
    this.state = state;
    this.op = this.device = "";
    const rows = state.model.layers.length ? state.model.layers : state.model.items;
    const s = state.series;
    this.table = new Table({ label: "Layers", columns: layerColumns(state), rows, sortBy: s && { key: s.key, down: true },
      onSelect: i => state.select(i, this), classOf: i => isOnCpu(i) ? "cpu" : "" });
    this.count = element("span", { class: "dim", role: "status" });
    this.root = element("div", { class: "view-fill" }, this.toolbar(rows), this.table.holder);
    state.on("query", () => this.filter());
    state.on("select", by => this.onSelect(by));
    state.on("series", () => this.table.setSort(state.series.key, true));
    this.filter();
  }

  toolbar(rows) {
    const ops = [...new Set(rows.map(i => i.op))].sort(), devices = [...new Set(rows.map(i => i.device).filter(Boolean))];
    const bar = element("div", { class: "toolbar" },
      select("Operator ", [["", "all"], ...ops.map(op => [op, visible(op)])], "", op => { this.op = op; this.filter(); }));
    if (devices.length > 1)
      bar.append(select("Runs on ", [["", "all"], ...devices.map(d => [d, visible(d)])], "", d => { this.device = d; this.filter(); }));
    bar.append(button("In order", () => this.table.setSort("name", false), { title: "Sort by the order of execution" }), this.count);
    return bar;
  }

  filter() {
    const { matches } = this.state;
    this.table.filter(i => matches.has(i) && (!this.op || i.op === this.op) && (!this.device || i.device === this.device));
    const us = this.table.shown.reduce((sum, i) => sum + (this.state.timeOf(i) ?? 0), 0);
    const time = this.state.series ? `, ${formatUs(us)}` : "";
    this.count.textContent = `${this.table.shown.length} of ${this.table.rows.length} layers${time}`;
  }

  onSelect(by) {
    this.table.choose(this.state.selected, false);
    if (by !== this && this.state.selected) this.table.scrollTo(this.state.selected);
  }

  print(on) {
    this.table.showWhole(on);
  }
}
