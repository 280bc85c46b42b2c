// What the user has chosen, which all views share, and who wants to know of it.

class State {
  constructor(model) {
    this.model = model;
    this.series = model.series[0] ?? null;
    this.selected = null;
    this.query = "";
    this.matches = new Set(model.items);
    this.listeners = new Map();
  }

  on(what, listener) {
    if (!this.listeners.has(what)) this.listeners.set(what, []);
    this.listeners.get(what).push(listener);
  }

  tell(what, ...details) {
    for (const listener of this.listeners.get(what) ?? []) listener(...details);
  }

  // "series": another time is shown.
  setSeries(key) {
    this.series = this.model.series.find(s => s.key === key);
    this.tell("series");
  }

  // "select": an item, or null. `by` is the view in which that was done: it need not scroll.
  select(item, by = null) {
    this.selected = item;
    this.tell("select", by);
  }

  // "query": other items match.
  setQuery(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.query = words.join(" ");
    this.matches = new Set(this.model.items.filter(i => words.every(w => searchText(i).includes(w))));
    this.tell("query");
  }

  timeOf(item) {
    return this.series ? this.series.of(item) : null;
  }

  shareOf(item) {
    const us = this.timeOf(item);
    return isNumber(us) && this.series.sum > 0 ? us / this.series.sum : null;
  }
}

function searchText(item) {
  item.searchText ??= [item.name, item.op, item.device, item.type, ...item.parts.flatMap(p => [p.name, p.op]),
    ...item.outputs.map(t => t.name)].join("\n").toLowerCase();
  return item.searchText;
}
