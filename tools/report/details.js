// All that is known of the selected layer, beside the view or, on a phone, below it.

function detailsTimes(state, item) {
  const l = item.layer, rows = state.model.series.filter(s => isNumber(s.of(item))).map(s => [s.title, `${formatUs(s.of(item))}${s.sum ? `, ${formatPercent(s.of(item) / s.sum)}` : ""}`]);
  if (l && state.model.data.profile?.runs > 1) rows.push(["All runs", `${formatUs(measuredOf(l, "min_us"))} to ${formatUs(measuredOf(l, "max_us"))}`], ["Half of them within", formatUs(measuredOf(l, "spread_us"))]);
  return rows;
}

function detailsCost(item) {
  return [["Limited by", limitedBy(item)], ["MAC use", macUse(item) === null ? null : formatPercent(macUse(item))], ["MACs", costOf(item, "macs") && formatInteger(costOf(item, "macs"))],
    ["Cycles", costOf(item, "total_cycles") && formatInteger(costOf(item, "total_cycles"))], ["for data", costOf(item, "ddr_cycles") && formatInteger(costOf(item, "ddr_cycles"))],
    ["to compute", costOf(item, "npu_cycles") && formatInteger(costOf(item, "npu_cycles"))], ["Read", costOf(item, "read_bytes") && formatBytes(costOf(item, "read_bytes"))],
    ["Written", costOf(item, "write_bytes") && formatBytes(costOf(item, "write_bytes"))], ["Cores 0/1/2", workLoad(item)]];
}

function detailsErrors(item) {
  return item.rows.flatMap(row => [["Tensor", row.name], ...MEASURES.filter(m => m.of(row) !== null).map(m => [m.title, formatMeasure(m, row)]),
    ["Gain", isNumber((row.single ?? row.entire)?.gain) ? (row.single ?? row.entire).gain.toFixed(5) : null], ...(row.over_limit ? [["", "over the limit"]] : [])]);
}

function detailsTensors(list) {
  return list.map(t => [t.name || "–", formatTensor(t)]);
}

function detailsAttributes(item) {
  const plain = v => v && typeof v === "object" && "value" in v ? plain(v.value) : Array.isArray(v) ? v.map(plain).join(", ") : typeof v === "object" ? JSON.stringify(v) : String(v);
  return Object.entries(item.node?.attributes ?? {}).map(([name, value]) => [name, plain(value)]);
}

function detailsGroup(title, rows) {
  const known = rows.filter(([, value]) => value !== null && value !== undefined && value !== "");
  if (!known.length) return null;
  return element("section", {}, element("h3", {}, title),
    element("dl", {}, ...known.flatMap(([name, value]) => [element("dt", {}, visible(name)), element("dd", {}, visible(value))])));
}

class Details {
  constructor(state, holder, show) {
    Object.assign(this, { state, holder, show });
    state.on("select", () => this.draw());
    state.on("series", () => this.draw());
  }

  draw() {
    const { state, holder } = this, item = state.selected;
    holder.hidden = !item;
    if (!item) return;
    const links = element("p", { class: "links" }, button("In the table", () => this.show("layers")), button("In the graph", () => this.show("graph")));
    holder.replaceChildren(element("header", {}, element("h2", {}, visible(item.name || item.op)), button("×", () => state.select(null), { "aria-label": "Close (Esc)", title: "Close (Esc)" })),
      element("p", { class: "dim" }, [visible(item.op), item.device && `on the ${visible(item.device)}`, visible(item.type)].filter(Boolean).join(", ")), links,
      ...[["Time", detailsTimes(state, item)], ["Accuracy", detailsErrors(item)], ["Cost", detailsCost(item)], ["Inputs", detailsTensors(item.inputs)], ["Outputs", detailsTensors(item.outputs)],
        ["Attributes", detailsAttributes(item)], ["Nodes of the file in it", item.parts.map(p => [p.op, p.name || listOf(p.outputs)[0]?.name])]].map(([title, rows]) => detailsGroup(title, rows)).filter(Boolean));
  }
}
