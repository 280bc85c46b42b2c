// The page: its views, what is above them, and the theme.

const VIEWS = [
  { id: "summary", title: "Summary", make: s => new SummaryView(s), there: m => m.data.profile || (!m.data.bench && !m.data.board) },
  { id: "board", title: "Board", make: s => new BoardView(s), there: m => m.data.board },
  { id: "bench", title: "Load", make: s => new BenchView(s), there: m => m.data.bench },
  { id: "layers", title: "Layers", heading: "Layers", make: s => new LayersView(s), there: m => m.items.length > 0 },
  { id: "graph", title: "Graph", heading: "Graph", make: s => new GraphView(s), there: m => m.items.some(i => i.node) },
  { id: "memory", title: "Memory", make: s => new MemoryView(s), there: m => m.data.memory },
  { id: "accuracy", title: "Accuracy", make: s => new AccuracyView(s), there: m => m.data.accuracy },
  { id: "facts", title: "File", make: s => new FactsView(s), there: m => m.data.description },
];
const THEMES = [["", "Theme: as the system"], ["light", "Theme: light"], ["dark", "Theme: dark"]];

class Page {
  constructor(model) {
    this.state = new State(model);
    this.views = VIEWS.filter(v => v.there(model)).map(v => ({ ...v }));
    this.heading(model);
    this.makeTabs();
    this.makeTools();
    this.details = new Details(this.state, document.getElementById("details"), id => this.show(id));
    watchTips();
    watchKeys(this.state, this);
    addEventListener("hashchange", () => this.show(location.hash.slice(1), false));
    this.show(location.hash.slice(1) || this.views[0].id, false);
    this.watchPrint();
  }

  heading(model) {
    const name = model.fileName;
    document.title = `${name}: rknnctl report`;
    const h1 = document.querySelector("h1");
    h1.replaceChildren(nameElement(name));
  }

  // ---- views ----

  makeTabs() {
    const tabs = document.getElementById("tabs"), main = document.getElementById("views");
    this.views.forEach((view, i) => {
      view.panel = element("section", { id: view.id, role: "tabpanel", "aria-labelledby": `tab-${view.id}`, "data-title": view.heading, hidden: true });
      view.tab = button(view.title, () => this.show(view.id), { id: `tab-${view.id}`, role: "tab", "aria-controls": view.id, title: `${view.title} (${i + 1})` });
      main.append(view.panel);
      tabs.append(view.tab);
    });
    tabs.addEventListener("keydown", event => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], n = this.views.length;
      if (!step) return;
      const next = this.views[(this.views.indexOf(this.view) + step + n) % n];
      this.show(next.id);
      next.tab.focus();
      event.preventDefault();
    });
  }

  // Views are made when they are first seen.
  make(view) {
    view.object ??= view.make(this.state);
    if (!view.panel.firstChild) view.panel.append(view.object.root);
  }

  show(id, remember = true) {
    const view = this.views.find(v => v.id === id);
    if (!view) return this.view || this.show(this.views[0].id, false);
    this.view = view;
    for (const v of this.views) {
      v.panel.hidden = v !== view;
      v.tab.setAttribute("aria-selected", String(v === view));
      v.tab.tabIndex = v === view ? 0 : -1;
    }
    document.body.dataset.view = id;
    this.make(view);
    if (this.state.selected) this.state.tell("select", null);
    if (remember) history.replaceState(null, "", `#${id}`);
  }

  showNumber(n) {
    if (this.views[n]) this.show(this.views[n].id);
  }

  // ---- tools ----

  makeTools() {
    const { state } = this, query = document.getElementById("query"), { series } = state.model;
    query.addEventListener("input", () => { state.setQuery(query.value); this.showFound(); });
    query.addEventListener("keydown", event => { if (event.key === "Enter") this.nextMatch(); });
    state.on("query", () => this.showFound());
    if (series.length > 1)
      document.getElementById("series").append(choice("Whose time is shown", series.map(s => [s.key, s.title, `Times ${s.what}`]), state.series.key, key => state.setSeries(key)));
    document.querySelector("search").hidden = !state.model.items.length;
    document.getElementById("help").addEventListener("click", keysDialog);
    this.makeTheme(document.getElementById("theme"));
  }

  showFound() {
    const { state } = this;
    document.getElementById("found").textContent = state.query ? `${state.matches.size} of ${state.model.items.length}` : "";
  }

  // In the order of execution, round and round.
  nextMatch() {
    const { state } = this, list = state.model.items.filter(i => state.matches.has(i));
    if (!list.length) return;
    const next = list.find(i => i.id > (state.selected?.id ?? -1)) ?? list[0];
    if (this.view.id === "facts" || this.view.id === "memory") this.show("layers");
    state.select(next);
  }

  makeTheme(switcher) {
    let at = Math.max(0, THEMES.findIndex(([name]) => name === this.stored()));
    const apply = () => {
      const [name, words] = THEMES[at];
      document.documentElement.dataset.theme = name;
      switcher.textContent = ["◐", "☀", "☾"][at];
      switcher.title = words;
      switcher.setAttribute("aria-label", words);
    };
    switcher.addEventListener("click", () => {
      at = (at + 1) % THEMES.length;
      try { localStorage.setItem("rknnctl-report-theme", THEMES[at][0]); } catch { /* it is not remembered then */ }
      apply();
    });
    apply();
  }

  stored() {
    try { return localStorage.getItem("rknnctl-report-theme"); } catch { return null; }
  }

  // ---- paper ----

  watchPrint() {
    const media = matchMedia("print"), follow = () => this.print(media.matches);
    media.addEventListener("change", follow);
    addEventListener("beforeprint", () => this.print(true));
    addEventListener("afterprint", () => this.print(false));
    if (media.matches) this.print(true);
  }

  // All views, one below the other.
  print(on) {
    if (on === !!this.printing) return;
    this.printing = on;
    for (const view of this.views) {
      if (on) this.make(view);
      view.panel.hidden = !on && view !== this.view;
    }
    for (const view of this.views) view.object?.print?.(on);
  }
}

new Page(new Model(JSON.parse(document.getElementById("data").textContent)));
