// Throughput and latency under load: what `rknnctl bench --report` measured.

const BENCH_HEIGHT = 320; // pixels
const PERCENTILES = [["min", "Min"], ["median", "Median"], ["p90", "P90"], ["p99", "P99"], ["p99.9", "P99.9"], ["max", "Max"]];
const BENCH_LINES = [["median", "Median"], ["p90", "P90"], ["p99", "P99"]];

// Every row of the table: a point, or of several models one of them in it.
function benchRows(bench) {
  const single = listOf(bench.points).length && !listOf(bench.points)[0].models;
  return listOf(bench.points).flatMap(p => [...listOf(p.models), p].filter(r => isNumber(benchRate(r)))
    .map(r => ({ ...r, name: r.model ? baseName(r.model) : single ? baseName(bench.models?.[0]) : "all", rate: benchRate(r) })));
}

// The end of a path, as the page's heading.
function baseName(path) {
  return visible(String(path ?? "").split("/").pop());
}

function benchRate(row) {
  return measuredOf(row, "runs_per_second");
}

// Latency over throughput, a mark for each number of clients; a line that turns upwards has met what the device can do. With one
// number of clients: latency by percentile.
class BenchChart {
  constructor(rows, many) {
    Object.assign(this, { rows, many });
    this.names = [...new Set(rows.map(r => r.name))];
    this.shown = this.names.at(-1);
    this.holder = element("div", { class: "chart-holder" });
    this.redraw = drawnToWidth(this.holder, width => this.draw(width));
    this.legend = element("div");
    this.root = element("figure", { id: "load" }, this.toolbar(), this.holder, this.legend);
  }

  toolbar() {
    if (!this.many || this.names.length < 2) return null;
    return element("div", { class: "toolbar" }, select("Runs of", this.names.map(n => [n, n]), this.shown, name => { this.shown = name; this.redraw(); }));
  }

  // [{ title, points: [{ x, y, label, tip }] }]
  lines() {
    if (!this.many)
      return this.rows.map(r => ({ title: r.name, points: PERCENTILES.map(([key, title], i) => ({ x: i, y: r.latency_us?.[key], tip: [r.name, [[title, formatUs(r.latency_us?.[key])]]] })) }));
    const rows = this.rows.filter(r => r.name === this.shown);
    return BENCH_LINES.map(([key, title], i) => ({ title, points: rows.map(r => ({ x: r.rate, y: r.latency_us?.[key], label: i === BENCH_LINES.length - 1 ? String(r.clients) : null,
      tip: [`${r.clients} client${r.clients === 1 ? "" : "s"}`, [["runs/s", significant(r.rate, 4)], ...PERCENTILES.map(([k, name]) => [name, formatUs(r.latency_us?.[k])])]] })) }));
  }

  draw(width) {
    const lines = this.lines().map(l => ({ ...l, points: l.points.filter(p => isNumber(p.y) && p.y > 0) }));
    const left = AXIS_LEFT, right = width - CHART_RIGHT, top = CHART_TOP + 26, bottom = top + BENCH_HEIGHT;
    const all = lines.flatMap(l => l.points), most = largest(all.map(p => p.y)), least = smallest(all.map(p => p.y)) ?? 1;
    const low = Math.floor(Math.log10(least)), high = Math.max(low + 1, Math.ceil(Math.log10(most || 10)));
    const y = v => bottom - (bottom - top) * (Math.log10(v) - low) / (high - low);
    const mostX = this.many ? largest(all.map(p => p.x)) * 1.05 || 1 : PERCENTILES.length - 1;
    const x = scale(mostX, left + 12, right - 12);
    const svg = chartSvg(width, bottom + AXIS_BELOW, this.many ? "Latency over throughput" : "Latency by percentile");
    yAxis(svg, { values: Array.from({ length: high - low + 1 }, (_, i) => 10 ** (low + i)), at: y, format: formatUs, title: "Latency", left, right, top: top - 8 });
    xAxis(svg, this.many ? { values: ticks(mostX, Math.max(2, width / 110)), at: x, format: v => formatCount(v), title: "runs/s; numbers beside marks: clients", y: bottom, left, right }
      : { values: PERCENTILES.map((_, i) => i), at: x, format: i => PERCENTILES[i][1], title: "of all runs", y: bottom, left, right });
    lines.forEach((line, i) => {
      svg.append(element("path", { class: `load-line load${i % 6}`, d: line.points.map((p, k) => `${k ? "L" : "M"}${round(x(p.x))},${round(y(p.y))}`).join("") }));
      for (const p of line.points) {
        svg.append(withTip(element("circle", { class: `load-mark load${i % 6}`, cx: round(x(p.x)), cy: round(y(p.y)), r: 4 }), () => p.tip));
        if (p.label) svg.append(element("text", { class: "tick", x: round(x(p.x)), y: round(y(p.y)) - 8, "text-anchor": "middle" }, p.label));
      }
    });
    this.holder.replaceChildren(svg);
    this.legend.replaceChildren(legend(lines.map((l, i) => [`load-sign load${i % 6}`, l.title])));
  }
}

class BenchView {
  constructor(state) {
    const { bench } = state.model.data, rows = benchRows(bench), many = listOf(bench.points).length > 1, models = Array.isArray(bench.models) ? bench.models : [];
    const name = rows.some(r => r.name !== rows[0].name) ? [{ key: "name", title: "Model", value: r => r.name, cell: v => nameElement(v), width: "var(--name-column)" }] : [];
    this.table = new Table({ label: "Runs", rows, columns: [...name,
      { key: "clients", title: "Clients", number: true, upward: true, value: r => r.clients },
      { key: "rate", title: "Runs/s", number: true, value: r => r.rate, cell: v => significant(v, 4) },
      ...PERCENTILES.map(([key, title]) => ({ key: `latency-${key}`, title, number: true, value: r => r.latency_us?.[key] ?? null, cell: v => formatUs(v) })),
      { key: "queue", title: "Queue", hint: "median: how long a run waited for the device", number: true, value: r => r.queue_us?.median ?? null, cell: v => formatUs(v) },
      { key: "run", title: "Run", hint: "median: on the device", number: true, value: r => measuredOf(r, "run_us")?.median ?? null, cell: v => formatUs(v) }] });
    this.root = element("div", { class: "view" }, element("h2", {}, "Under load"), element("p", { class: "dim" }, this.about(bench, rows, models)),
      ...rows.filter(r => r.overrun && !r.model).map(r => element("p", { class: "notices" }, `With ${r.clients} client${r.clients === 1 ? "" : "s"} ${significant(r.asked_per_second, 4)} runs/s were asked for, and ${significant(r.rate, 4)} done: runs queued.`)),
      rows.length ? new BenchChart(rows, many).root : null, this.table.holder);
  }

  about(bench, rows, models) {
    const software = rows.some(r => r.timing?.device === "software");
    return visible([models.map(baseName).join(", "), bench.server?.chip && `on ${bench.server.chip}`, "latency is what a program sees: inputs, run, outputs, the way to the server",
      software && `${softwareName(bench.server) === "emulator" ? "an emulator" : "a software NPU"}: its machine's times, which say nothing of a board`, rows.some(r => isNumber(r.asked_per_second)) && "runs were asked for at random times, and latency counts from then on"].filter(Boolean).join("; "));
  }

  print(on) {
    this.table.showWhole(on);
  }
}
