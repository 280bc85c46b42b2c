// What a reader wants to know first: how fast, how large, how well, and where the time goes.

const SLOWEST = 10;

function card(id, title, value, ...below) {
  return element("div", { class: "card", id: `card-${id}` }, element("dt", {}, title), element("dd", {}, element("b", {}, value),
    ...below.filter(Boolean).map(text => element("span", { class: "dim" }, text))));
}

function timeCards({ model }) {
  return model.series.map(s => card(`time-${s.key}`, s.title, formatUs(s.run), formatRate(s.run), s.what, s.note));
}

function memoryCard({ data }) {
  const m = data.memory;
  return m && card("memory", "Memory", formatBytes(m.total_bytes), `weights ${formatBytes(m.weight_bytes)}`, `tensors ${formatBytes(m.internal_bytes)}`);
}

function sumOf(items, value) {
  return items.reduce((sum, i) => sum + (value(i) ?? 0), 0);
}

function workCards({ model, data }) {
  const macs = data.description?.estimate?.macs ?? sumOf(model.layers, i => costOf(i, "macs"));
  const cycles = sumOf(model.layers, i => i.layer?.total_cycles), busy = sumOf(model.layers, i => i.layer?.mac_cycles);
  const use = isNumber(data.description?.estimate?.mac_usage) ? data.description.estimate.mac_usage / 100 : cycles ? busy / cycles : null;
  const moved = sumOf(model.layers, movedBytes);
  return [macs ? card("macs", "MACs", formatCount(macs), moved ? `${formatBytes(moved)} moved` : null) : null,
    use !== null && macs ? card("use", "MAC utilisation", formatPercent(use), "of the multipliers, over the run") : null];
}

function cpuCard({ model, state }) {
  const all = model.items.filter(i => !isPort(i)), cpu = model.onCpu;
  if (!all.some(i => i.device)) return null;
  const ops = [...new Set(cpu.map(i => visible(i.op)))];
  const us = sumOf(cpu, i => state.timeOf(i));
  return card("cpu", "On the CPU", cpu.length ? `${cpu.length} of ${all.length} layers` : "nothing",
    cpu.length ? cut(ops.join(", "), 60) : "all layers run on the NPU",
    cpu.length && state.series ? cpu.some(i => isNumber(state.timeOf(i))) ? `${formatPercent(us / state.series.sum)} of the time` : "left out of the estimate" : null);
}

function accuracyCard({ data, model }) {
  const a = data.accuracy;
  if (!a) return null;
  const over = model.rows.filter(r => r.over_limit).length, last = model.rows.filter(r => r.entire).at(-1);
  return card("accuracy", "Accuracy", over ? `${over} of ${model.rows.length} over ${a.limit_percent} %` : `all within ${a.limit_percent} %`,
    last && `last tensor: cosine ${last.entire.cosine?.toFixed(5) ?? "not a number"}`, a.worst ? `worst: ${cut(a.worst.name, 40)}` : "no layer differs");
}

function notices({ data, model }) {
  const all = [], d = data.description ?? {};
  if (d.refused) all.push(`The server describes this file, but would not run it: ${d.refused}`);
  if (!model.layers.some(i => i.layer)) all.push("The device gives no times of single layers.");
  if (isSoftware(data)) all.push(`No chip was used: ${softwareName(data.server) === "emulator" ? "an emulator" : "a software NPU"} computed this model. What its machine took says nothing of a board; ${model.series.some(s => s.key === "chip") ? "the estimate does." : "there is no estimate of this model."}`);
  if (data.profile?.timing?.estimate_assumed) all.push(`Nobody has chosen a chip: the estimate is for ${estimatedChip(data)}. Choose one with --server sim:CHIP, or rknnd --backend sim:CHIP.`);
  if (data.accuracy?.why_not_single) all.push(`Single layers could not be looked at: ${data.accuracy.why_not_single}`);
  if (!model.items.some(i => i.node)) all.push("The server does not tell the model's nodes: there is no graph.");
  return all.length ? element("ul", { class: "notices" }, ...all.map(text => element("li", {}, visible(text)))) : null;
}

// ---- facts -------------------------------------------------------------------------------------

function clockText(data) {
  const clocks = listOf(data.profile?.frequencies).filter(c => c.hz);
  return clocks.map(c => `${c.domain || c.name} ${formatCount(c.hz)}Hz`).join(", ");
}

// The hottest, all powers, and what heat slows down. A machine without sensors says so.
function heatText(data) {
  const sensors = data.profile?.sensors;
  if (!Array.isArray(sensors)) return null;
  const of = kind => sensors.filter(s => s.kind === kind && isNumber(s.value));
  const hot = of("temperature").sort((a, b) => b.value - a.value)[0];
  const slowed = of("cooling").filter(s => s.value > 0 && !/fan/i.test(s.name));
  return [hot ? `${significant(hot.value, 3)} °C (${hot.name}${isNumber(hot.limit) ? `, critical at ${hot.limit} °C` : ""})` : "no temperature sensor",
    ...of("power").map(s => `${significant(s.value, 3)} W (${s.name})`),
    ...slowed.map(s => `slowed down by heat (${s.name})`)].join(", ");
}

function modelFacts(data) {
  const d = data.description ?? {};
  return [["File", data.model], ["Size", formatBytes(data.memory?.file_bytes ?? d.file_size)], ["Format", d.container && [d.container, d.operator_set && `operator set ${d.operator_set}`].filter(Boolean).join(", ")],
    ["Made for", [d.chip, d.platform].filter(Boolean).join(", ")], ["Toolkit", d.toolkit], ["Made from", d.framework],
    ["Says of itself", d.custom_string], ["Custom operators", d.custom_operators]];
}

function runFacts(data) {
  const s = data.server ?? {}, p = data.profile, golden = data.golden;
  return [["Date", formatDate(data.date)], ["Server", s.uri], ["Software", s.software], ["Chip", s.chip && `${s.chip}, ${s.cores} core${s.cores === 1 ? "" : "s"}`],
    ["Backend", s.backend], ["Runtime", s.runtime_version], ["Driver", s.driver_version], ["Clocks", p && clockText(data)], ["Heat and power", heatText(data)],
    ["Runs", p && `${p.runs}; times are medians`], ["Inputs", data.made_up_inputs ? "made up" : data.made_up_inputs === false ? "from files" : null],
    ["Whole request", p?.total_us && `${formatUs(p.total_us.median)}, with the way to the server`], ["Waited", p?.queue_us && `${formatUs(p.queue_us.median)} for the device`],
    ["Golden model", golden?.model], ["Golden server", golden?.server?.uri]];
}

function facts(id, title, list) {
  const known = list.filter(([, value]) => value && value !== MISSING);
  return element("section", { class: "facts", id }, element("h3", {}, title),
    element("dl", {}, ...known.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, visible(value))])));
}

function tensorTable(data) {
  const rows = [...listOf(data.inputs).map(t => ({ ...t, way: "input" })), ...listOf(data.outputs).map(t => ({ ...t, way: "output" }))];
  const said = [...listOf(data.description?.inputs).map(t => ({ ...t, way: "input" })), ...listOf(data.description?.outputs).map(t => ({ ...t, way: "output" }))];
  const quantized = t => t.scale && /INT/.test(t.type) && t.quantization !== "NONE" ? `${significant(t.scale, 4)} × ${t.zero_point ? `(q ${t.zero_point < 0 ? "+" : "−"} ${Math.abs(t.zero_point)})` : "q"}` : null;
  return new Table({ label: "Inputs and outputs", rows: rows.length ? rows : said, columns: [
    { key: "name", title: "Tensor", value: t => t.name, cell: v => nameElement(v), width: "var(--name-column)" },
    { key: "way", title: "Way", value: t => t.way }, { key: "shape", title: "Shape", value: t => formatShape(t.shape) },
    { key: "layout", title: "Layout", value: t => t.layout }, { key: "type", title: "Type", value: t => t.type },
    { key: "real", title: "Real value", hint: "of a stored number q", value: quantized },
    { key: "bytes", title: "Size", number: true, value: t => t.bytes ?? t.size ?? null, cell: v => formatBytes(v) }] }).holder;
}

// ---- where the time goes -----------------------------------------------------------------------

function operatorRows(state) {
  const rows = new Map();
  for (const item of state.model.layers) {
    const row = rows.get(item.op) ?? { op: item.op, calls: 0, us: 0, cpu: 0, macs: 0, moved: 0 };
    rows.set(item.op, row);
    row.calls++;
    row.us += state.timeOf(item) ?? 0;
    row.cpu += item.device === "CPU";
    row.macs += costOf(item, "macs") ?? 0;
    row.moved += movedBytes(item) ?? 0;
  }
  return [...rows.values()];
}

function operatorTable(state) {
  const rows = operatorRows(state), sum = state.series?.sum || 0, most = largest(rows.map(r => r.us), 1e-9);
  return new Table({ label: "Operators", rows, sortBy: { key: "time", down: true }, columns: [
    { key: "op", title: "Operator", value: r => r.op, width: "var(--name-column)",
      cell: v => element("span", { class: "layer" }, element("i", { class: `dot op${state.model.colours.get(v) ?? 0}` }), nameElement(v)) },
    { key: "time", title: "Time", number: true, value: r => r.us, cell: v => formatUs(v), width: "8em", bar: r => r.us / most, barClass: r => `op${state.model.colours.get(r.op) ?? 0}` },
    { key: "share", title: "Share", number: true, value: r => sum ? r.us / sum : null, cell: v => formatPercent(v) },
    { key: "calls", title: "Layers", number: true, value: r => r.calls },
    { key: "cpu", title: "On CPU", number: true, value: r => r.cpu, cell: v => String(v || MISSING) },
    { key: "macs", title: "MACs", number: true, value: r => r.macs || null, cell: v => formatCount(v) },
    { key: "moved", title: "Moved", number: true, value: r => r.moved || null, cell: v => formatBytes(v) }] });
}

function slowest(state) {
  const list = state.model.layers.filter(i => state.timeOf(i) > 0).sort((a, b) => state.timeOf(b) - state.timeOf(a)).slice(0, SLOWEST);
  const most = state.timeOf(list[0] ?? state.model.layers[0]) || 1, share = sumOf(list, i => state.shareOf(i));
  const rows = list.map(item => element("li", {}, withTip(button("", () => state.select(item, null), { class: "bar-row" }), () => itemTip(state, item))));
  rows.forEach((row, k) => row.firstChild.append(nameElement(list[k].name || list[k].op),
    element("span", { class: "number" }, `${formatUs(state.timeOf(list[k]))}, ${formatPercent(state.shareOf(list[k]))}`),
    element("i", { class: `bar op${state.model.colours.get(list[k].op) ?? 0}`, style: { width: `${100 * state.timeOf(list[k]) / most}%` } })));
  return [element("h3", {}, list.length < state.model.layers.length ? `The slowest ${list.length} layers take ${formatPercent(share)} of the time` : "Layers by time"),
    element("ol", { class: "bars" }, ...rows)];
}

class SummaryView {
  constructor(state) {
    const { model } = state, { data } = model, all = { data, model, state };
    this.cards = element("dl", { class: "cards" });
    this.operators = element("section", { id: "operators" });
    this.slowest = element("section", { id: "slowest" });
    this.fill = () => this.draw(state, all);
    this.root = element("div", { class: "view" }, this.cards, notices(all));
    if (model.series.length)
      this.root.append(element("h2", {}, "Where the time goes"), new Timeline(state).root, element("div", { class: "columns" }, this.operators, this.slowest));
    this.root.append(element("h2", {}, "Inputs and outputs"), tensorTable(data),
      element("div", { class: "columns" }, facts("model-facts", "The model", modelFacts(data)), facts("run-facts", "How it was measured", runFacts(data))));
    state.on("series", this.fill);
    this.fill();
  }

  draw(state, all) {
    this.cards.replaceChildren(...[...timeCards(all), memoryCard(all), ...workCards(all), cpuCard(all), accuracyCard(all)].filter(Boolean));
    if (!state.series) return;
    this.table = operatorTable(state);
    this.operators.replaceChildren(element("h3", {}, "Operators"), this.table.holder);
    this.slowest.replaceChildren(...slowest(state));
  }

  print(on) {
    this.table?.showWhole(on);
  }
}
