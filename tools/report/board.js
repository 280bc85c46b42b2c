// What `rknnctl board-test` found: the machine, each way to its NPU, each probe.

const VERDICTS = { ok: "as taken", other: "differs", wrong: "wrong", failed: "failed", skipped: "not tried" };

function boardSummary(board) {
  const all = board.probes.flatMap(p => p.results.map(r => ({ probe: p, result: r })));
  const count = is => all.filter(a => a.result.is === is).length, there = board.targets.filter(t => t.there);
  return element("dl", { class: "cards" },
    card("ways", "Ways to the NPU", String(there.length), there.map(t => t.name).join(", ")),
    card("right", "As taken", String(count("ok")), `of ${all.length - count("skipped")} that were tried`),
    card("differs", "Other than taken", String(count("other")), "a switch to change"),
    card("wrong", "Wrong or failed", String(count("wrong") + count("failed")), `${count("skipped")} not tried`));
}

function firstText(r) {
  const f = r.first;
  return f ? `tensor ${f.tensor}${f.node ? ` of node ${f.node}` : ""}, value ${f.index}: ${f.expected} expected, ${f.seen} seen; ${r.n_wrong} of ${r.n} differ` : "";
}

// "this chip …: hypothesis B; rknnd takes A"
function verdictText(probe, r) {
  const taken = probe.hypotheses.find(h => h.default);
  if (r.is === "other") return `this chip: hypothesis ${r.hypothesis}; rknnd takes ${r.taken ?? taken?.id}: differs${r.switch ? ` (switch ${r.switch} in tensor/arithmetic.c)` : ""}. It is ${r.says}.`;
  if (r.is === "ok") return probe.hypotheses.length > 1 ? `Hypothesis ${r.hypothesis}, which rknnd takes: ${r.says}.` : r.says;
  return [r.words, firstText(r)].filter(Boolean).join("; ");
}

function probeRows(board) {
  return board.probes.flatMap(probe => probe.results.filter(r => r.is !== "skipped" || board.targets.find(t => t.name === r.target)?.there)
    .map(result => ({ probe, result, text: verdictText(probe, result) })));
}

function probeTable(board) {
  return new Table({ label: "Probes", rows: probeRows(board), columns: [
    { key: "id", title: "Probe", value: r => r.probe.id, width: "9em" },
    { key: "title", title: "Question", value: r => r.probe.title, width: "var(--name-column)" },
    { key: "target", title: "On", value: r => r.result.target },
    { key: "is", title: "Is", value: r => VERDICTS[r.result.is] ?? r.result.is },
    { key: "says", title: "What came", value: r => r.text, width: "38em" },
    { key: "us", title: "A run", number: true, value: r => r.result.median_us ?? null, cell: v => formatUs(v) },
    { key: "ms", title: "In all", number: true, value: r => r.result.ms ?? null, cell: v => v === null ? MISSING : `${v} ms` }] }).holder;
}

// A row for each layer of a probe: what each way measured, beside the chip's estimate.
function layerRows(board) {
  return board.probes.flatMap(probe => {
    const rows = new Map();
    for (const r of probe.results) for (const l of listOf(r.layers)) {
      const row = rows.get(l.name) ?? { probe, name: l.name, op: l.op, estimate: null, us: {}, on: {} };
      rows.set(l.name, row);
      row.us[r.target] = l.us;
      row.on[r.target] = l.target;
      row.estimate ??= l.estimate_us;
    }
    return [...rows.values()];
  });
}

function layerTable(board) {
  const rows = layerRows(board), ways = board.targets.filter(t => rows.some(r => t.name in r.us)).map(t => t.name);
  if (!rows.length) return null;
  return element("section", { id: "layers" }, element("h2", {}, "Times of layers"),
    element("p", {}, "Of each probe's last run. The emulator and the software NPU take this machine's time, not a chip's. (CPU): the layer ran there."),
    new Table({ label: "Layers", rows, columns: [
      { key: "probe", title: "Probe", value: r => r.probe.id, width: "9em" },
      { key: "layer", title: "Layer", value: r => r.name, width: "var(--name-column)" },
      { key: "op", title: "Operator", value: r => r.op },
      { key: "estimate", title: "Chip's estimate", number: true, value: r => r.estimate, cell: v => v === null ? MISSING : formatUs(v) },
      ...ways.map(way => ({ key: `on-${way}`, title: way, number: true, value: r => r.us[way] ?? null,
        cell: (v, r) => v === null ? MISSING : `${formatUs(v)}${r?.on[way] === "CPU" ? " (CPU)" : ""}` }))] }).holder);
}

function targetFacts(t) {
  const s = t.server ?? {};
  return [["Is there", t.there ? "yes" : `no: ${t.failed}`], ["Chip", s.chip && `${s.chip}, ${s.cores} core${s.cores === 1 ? "" : "s"}`],
    ["Backend", s.backend], ["Runtime", s.runtime_version], ["Driver", s.driver_version]];
}

function machineFacts(board) {
  const f = board.facts, first = board.targets.find(t => t.there) ?? {};
  const nodes = listOf(f.nodes).map(n => `${n.path}${n.driver ? ` (${n.driver})` : ""}: ${n.mode} ${n.group}, ${n.opens ? "opens" : n.why}`);
  const heat = listOf(first.sensors).filter(s => s.kind === "temperature").map(s => `${significant(s.value, 3)} °C (${s.name})`);
  return [["Board", f.board], ["Chip", f.chip ?? "none was found"], ["Models for", board.chip], ["Kernel", `${f.kernel}, ${f.machine}`],
    ["Driver's file", f.driver_version], ["Modules", listOf(f.modules).map(m => `${m.name} ${m.version}`).join(", ")],
    ["Nodes", nodes.join("; ")], ["As root", f.root ? "yes" : "no"], ["Temperatures", heat.join(", ")],
    ["Clocks", listOf(first.clocks).filter(c => c.hz).map(c => `${c.domain || c.name} ${formatCount(c.hz)}Hz${c.governor ? ` (${c.governor})` : ""}`).join(", ")],
    ["Took", `${board.seconds} s`]];
}

function wordList(id, title, rows) {
  if (!rows.length) return null;
  return element("section", { id }, element("h2", {}, title), element("ul", { class: "notices" },
    ...rows.map(([name, text]) => element("li", {}, element("strong", {}, visible(name)), ` ${visible(text)}`))));
}

class BoardView {
  constructor({ model }) {
    const { board } = model.data;
    this.root = element("div", { class: "view" }, boardSummary(board),
      wordList("hints", "To know", (board.facts.hints ?? []).map(h => ["", h])),
      wordList("findings", "Findings", probeRows(board).filter(r => ["other", "wrong", "failed"].includes(r.result.is))
        .map(r => [`${r.probe.id} on ${r.result.target}, ${VERDICTS[r.result.is]}:`, r.text])),
      element("h2", {}, "Probes"), probeTable(board), layerTable(board),
      element("div", { class: "columns" }, facts("machine", "The machine", machineFacts(board)),
        ...board.targets.map(t => facts(`target-${t.name}`, `${t.name}: ${t.words}`, targetFacts(t)))),
      wordList("unwritten", "Not written for this chip", listOf(board.unwritten).map(u => [u.id, u.title])),
      wordList("by-hand", "Left to hands", listOf(board.by_hand).map(h => [h.id, `${h.title}: needs ${h.needs}`])));
  }
}
