// What the model takes of memory, and where its tensors lie while it runs.

const MAP_HEIGHT = 320; // pixels

function memoryTable(m) {
  const rows = [["Weights", m.weight_bytes], ["Internal tensors", m.internal_bytes], ["Other", m.other_bytes], ["Total", m.total_bytes], ["Model file", m.file_bytes],
    ["SRAM of the chip", m.sram_bytes || null], ["Tensors moved in a run", m.estimate?.internal_bytes], ["of that by SRAM", m.estimate?.sram_bytes]].filter(r => isNumber(r[1]));
  return new Table({ label: "Memory", rows, columns: [
    { key: "what", title: "Memory", value: r => r[0], width: "var(--name-column)" },
    { key: "size", title: "Size", number: true, value: r => r[1], cell: v => formatBytes(v) },
    { key: "bytes", title: "Bytes", number: true, value: r => r[1], cell: v => formatInteger(v) }] }).holder;
}

class MemoryMap {
  constructor(state, places, steps) {
    this.state = state;
    this.steps = steps;
    this.places = places.filter(p => p.size > 0).map(p => ({ ...p, from: Math.max(0, p.from), to: Math.min(steps - 1, p.to) }));
    this.size = this.places.reduce((most, p) => Math.max(most, p.offset + p.size), 0);
    this.writers = new Map(state.model.items.flatMap(i => i.outputs.map(t => [t.name, i])));
    this.holder = element("div", { class: "chart-holder" });
    this.redraw = drawnToWidth(this.holder, width => this.draw(width));
    state.on("select", () => this.redraw());
    this.root = element("figure", { id: "memory-map" }, element("figcaption", {}, element("b", {}, "Internal memory over one run"),
      element("span", { class: "dim" }, " each box is a tensor: as high as its bytes, as long as it is needed")), this.holder,
    legend([["dot kept", "a tensor"], ["dot chosen-place", "what the selected layer computes"], ["dash", `all that is needed: ${formatBytes(this.size)}`]]));
  }

  draw(width) {
    const left = AXIS_LEFT, right = width - CHART_RIGHT, top = CHART_TOP + 18, bottom = top + MAP_HEIGHT;
    const x = scale(this.steps, left, right), y = scale(this.size, bottom, top);
    const svg = chartSvg(width, bottom + AXIS_BELOW, "Internal memory over the layers");
    yAxis(svg, { values: ticks(this.size, 6, 2), at: y, format: formatBytes, title: "address in the internal memory", left, right, top });
    for (const p of this.places) svg.append(this.box(p, x, y));
    svg.append(element("line", { class: "peak", x1: left, x2: right, y1: y(this.size), y2: y(this.size) }));
    xAxis(svg, { values: countTicks(this.steps, width), at: v => x(v + 0.5), format: v => String(v + 1), title: "layer, in the order of execution", y: bottom, left, right });
    this.holder.replaceChildren(svg);
  }

  box(p, x, y) {
    const item = this.writers.get(p.name), chosen = item && item === this.state.selected;
    const rect = element("rect", { class: `place ${chosen ? "chosen-place" : "kept"}`, x: x(p.from), width: Math.max(1, x(p.to + 1) - x(p.from)),
      y: y(p.offset + p.size), height: Math.max(0.5, y(p.offset) - y(p.offset + p.size)), click: () => item && this.state.select(item, this) });
    return withTip(rect, () => [p.name || "tensor", [["size", formatBytes(p.size)], ["address", formatInteger(p.offset)],
      ["needed", `layers ${p.from + 1} to ${p.to + 1}`], ...(item ? [["computed by", item.name]] : [])]]);
  }
}

class MemoryView {
  constructor(state) {
    const { data } = state.model, m = data.memory ?? {};
    const places = listOf(m.arena ?? data.description?.arena).filter(p => !p.outside), steps = (data.description?.steps ?? []).length;
    this.root = element("div", { class: "view" }, element("h2", {}, "Memory"), memoryTable(m),
      places.length && steps ? new MemoryMap(state, places, steps).root : element("p", { class: "dim" }, "Where tensors lie is not known of this model."));
  }
}
