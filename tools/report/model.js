// What was measured, put in order: items. An item is a node of the graph as it is executed, with its
// time and its errors where these are known.

// Values of a list by name; what comes several times is taken in order.
class Queues {
  constructor(list, keyOf) {
    this.map = new Map();
    for (const value of list) {
      const key = keyOf(value);
      if (!this.map.has(key)) this.map.set(key, []);
      this.map.get(key).push(value);
    }
  }

  take(key) {
    return this.map.get(key)?.shift();
  }

  *rest() {
    for (const list of this.map.values()) yield* list;
  }
}

function listOf(value) {
  return Array.isArray(value) ? value.filter(v => v && typeof v === "object") : [];
}

function makeItem(node, layer, estimate) {
  return {
    name: node?.name || layer?.name || "", op: node?.op || layer?.op || "?", layer, estimate, node,
    device: layer?.target || node?.device || "", type: layer?.type || listOf(node?.outputs)[0]?.type || "",
    inputs: listOf(node?.inputs), outputs: listOf(node?.outputs), rows: [], parts: [],
  };
}

// The nodes as they run: of an ONNX file, what the executor made of them.
function graphNodes(description) {
  const layers = listOf(description?.layers);
  return layers.length ? layers : listOf(description?.nodes);
}

// A layer is its node by name; names that were too long, or had odd characters, on their way here
// leave as many layers as nodes.
function makeItems(data) {
  const layers = new Queues(listOf(data.profile?.layers), l => l.name);
  const estimates = new Queues(listOf(data.description?.layer_estimates), e => e.node);
  const items = graphNodes(data.description).map(n => makeItem(n, layers.take(n.name), estimates.take(n.name)));
  const rest = [...layers.rest()], without = items.filter(i => !i.layer && !isPort(i));
  if (rest.length === without.length) without.forEach((item, i) => { item.layer = rest[i]; });
  else for (const layer of rest) items.push(makeItem(null, layer, estimates.take(layer.name)));
  items.forEach((item, i) => { item.id = i; });
  return items;
}

function tensorKey(t) {
  return isNumber(t.tensor) ? t.tensor : `:${t.name}`;
}

// [{from, to, tensor}]: items, or "i0" and "o0" for inputs and outputs of the model that no item is.
function makeEdges(items) {
  const writer = new Map(), edges = [];
  for (const item of items) {
    const seen = new Set();
    for (const t of item.inputs) {
      const from = writer.get(tensorKey(t));
      if (!from || from === item || seen.has(from)) continue;
      seen.add(from);
      edges.push({ from, to: item, tensor: t });
    }
    for (const t of item.outputs) writer.set(tensorKey(t), item);
  }
  return edges;
}

// Rows of the comparison, each with the item that computes its tensor.
function addRows(items, rows) {
  const byNode = new Map();
  for (const item of items) {
    if (!byNode.has(item.name)) byNode.set(item.name, []);
    byNode.get(item.name).push(item);
  }
  rows.forEach((row, i) => {
    const candidates = byNode.get(row.node) ?? [];
    const item = candidates.find(c => c.outputs.some(t => t.name === row.name)) ?? candidates[0];
    row.index = i;
    row.item = item;
    item?.rows.push(row);
  });
}

// Which nodes of the file an item is: those between its inputs and its outputs.
function addParts(items, nodes) {
  const writer = new Map(nodes.flatMap(n => listOf(n.outputs).map(t => [t.name, n])));
  for (const item of items) {
    const ends = new Set(item.inputs.map(t => t.name)), found = new Set();
    const open = item.outputs.map(t => t.name);
    while (open.length && found.size < 50) {
      const node = writer.get(open.pop());
      if (!node || found.has(node)) continue;
      found.add(node);
      open.push(...listOf(node.inputs).map(t => t.name).filter(name => !ends.has(name)));
    }
    item.parts = [...found].reverse();
  }
}

function itemError(item) {
  const errors = item.rows.filter(isCompared).map(r => r.error);
  return errors.length ? Math.max(...errors.map(e => e ?? Infinity)) : null;
}

function isCompared(row) {
  return !!(row.single || row.entire);
}

function isPort(item) {
  return item.op === "InputOperator" || item.op === "OutputOperator";
}

// What passes inputs and outputs on is no work.
function isOnCpu(item) {
  return item.device === "CPU" && !isPort(item);
}

class Model {
  constructor(data) {
    this.data = data;
    this.items = makeItems(data);
    this.edges = makeEdges(this.items);
    this.rows = listOf(data.accuracy?.layers);
    addRows(this.items, this.rows);
    if (listOf(data.description?.layers).length) addParts(this.items, listOf(data.description.nodes));
    for (const item of this.items) item.error = itemError(item);
    this.layers = this.items.filter(i => i.layer || i.estimate);
    this.series = makeSeries(data, this.layers);
    this.colours = operatorColours(this.layers.length ? this.layers : this.items, this.series[0]);
  }

  get fileName() {
    return visible(String(this.data.model ?? "model").split("/").pop());
  }

  // Items that work on the CPU of the board.
  get onCpu() {
    return this.items.filter(isOnCpu);
  }
}

// Operators with the most time get colours of their own, 1 to N_COLOURS; 0: all others.
const N_COLOURS = 7;

function operatorColours(items, series) {
  const sums = new Map();
  for (const item of items)
    if (!isPort(item)) sums.set(item.op, (sums.get(item.op) ?? 0) + (series?.of(item) || 1e-9));
  const ops = [...sums].sort((a, b) => b[1] - a[1]).slice(0, N_COLOURS).map(([op]) => op);
  return new Map(ops.map((op, i) => [op, i + 1]));
}
