// Where the nodes of a graph are drawn (after Sugiyama): ranks from the top down, each node below
// all that it reads; an edge over several ranks has a place of its own in each of them, so it never
// runs through a box. Few crossings by barycentres; straight lines by least squares.

const BOX_WIDTH = 232, BOX_HEIGHT = 66, GAP_X = 22, GAP_Y = 46; // pixels
const LANE_WIDTH = 14; // of an edge that passes a rank
const PILL_WIDTH = 130; // of the end of an edge that is not drawn
const MAX_LANES = 20000;
const SWEEPS = 10;

// vertices: { item } boxes, { lane: true }, { pill, item: where it leads }; each has rank, x, in, out.
class Layout {
  constructor(n, edges) {
    this.vertices = Array.from({ length: n }, (_, i) => this.vertex({ item: i, width: BOX_WIDTH }));
    this.edges = edges.map(([from, to]) => ({ from, to }));
    this.rankAll();
    this.divide(this.longestEdge());
    this.fillRanks();
    this.order();
    this.place();
    this.finish();
  }

  vertex(v) {
    return { rank: 0, x: 0, above: [], below: [], ...v };
  }

  // Below all that it reads; what reads nothing, close to its first reader.
  rankAll() {
    const { vertices, edges } = this, readers = vertices.map(() => []);
    for (const e of edges) readers[e.from].push(e.to);
    vertices.forEach((v, i) => { for (const to of readers[i]) vertices[to].rank = Math.max(vertices[to].rank, v.rank + 1); });
    const reads = new Set(edges.map(e => e.to));
    vertices.forEach((v, i) => {
      if (!reads.has(i) && readers[i].length) v.rank = smallest(readers[i].map(to => vertices[to].rank)) - 1;
    });
  }

  // In ranks; longer ones are cut, so that there are not too many lanes.
  longestEdge() {
    const spans = this.edges.map(e => this.vertices[e.to].rank - this.vertices[e.from].rank - 1).sort((a, b) => a - b);
    let sum = 0;
    for (const span of spans) if ((sum += span) > MAX_LANES) return span - 1;
    return Infinity;
  }

  // Edges of one rank each. What leaves a node for several others is one edge as long as possible.
  divide(longest) {
    const lanes = new Map();
    for (const e of this.edges) {
      const { rank } = this.vertices[e.from], end = this.vertices[e.to].rank;
      if (end - rank - 1 > longest) { this.cutEdge(e); continue; }
      e.path = [this.vertices[e.from]];
      for (let r = rank + 1; r < end; r++) {
        const key = `${e.from},${r}`;
        if (!lanes.has(key)) lanes.set(key, this.add({ lane: true, rank: r, width: LANE_WIDTH }));
        e.path.push(lanes.get(key));
      }
      e.path.push(this.vertices[e.to]);
      this.join(e.path);
    }
  }

  add(v) {
    this.vertices.push(this.vertex(v));
    return this.vertices.at(-1);
  }

  join(path) {
    for (let i = 1; i < path.length; i++) {
      if (path[i - 1].below.includes(path[i])) continue;
      path[i - 1].below.push(path[i]);
      path[i].above.push(path[i - 1]);
    }
  }

  // A pill below its beginning says where it leads, one above its end where it comes from.
  cutEdge(e) {
    const from = this.vertices[e.from], to = this.vertices[e.to];
    const down = this.add({ pill: "to", leads: e.to, rank: from.rank + 1, width: PILL_WIDTH });
    const up = this.add({ pill: "from", leads: e.from, rank: to.rank - 1, width: PILL_WIDTH });
    e.path = [from, down];
    e.rest = [up, to];
    this.join(e.path);
    this.join(e.rest);
  }

  fillRanks() {
    this.ranks = [];
    for (const v of this.vertices) (this.ranks[v.rank] ??= []).push(v);
    for (let r = 0; r < this.ranks.length; r++) this.ranks[r] ??= [];
  }

  // ---- order within a rank ----

  order() {
    this.number();
    let best = this.crossings(), order = this.ranks.map(rank => [...rank]);
    for (let sweep = 0; sweep < SWEEPS && best > 0; sweep++) {
      this.sweep(sweep % 2 === 0 ? "above" : "below");
      const crossings = this.crossings();
      if (crossings >= best) continue;
      best = crossings;
      order = this.ranks.map(rank => [...rank]);
    }
    this.ranks = order;
    this.number();
  }

  number() {
    for (const rank of this.ranks) rank.forEach((v, i) => { v.at = i; });
  }

  sweep(side) {
    const ranks = side === "above" ? this.ranks : [...this.ranks].reverse();
    for (const rank of ranks) {
      for (const v of rank) v.key = v[side].length ? v[side].reduce((sum, u) => sum + u.at, 0) / v[side].length : v.at;
      rank.sort((a, b) => a.key - b.key || a.at - b.at).forEach((v, i) => { v.at = i; });
    }
  }

  // Pairs of edges that cross, counted with a Fenwick tree.
  crossings() {
    let sum = 0;
    for (const rank of this.ranks) {
      const ends = rank.flatMap(v => v.below.map(u => u.at).sort((a, b) => a - b));
      const size = largest(ends) + 2, tree = new Int32Array(size + 1);
      ends.forEach((end, seen) => {
        let before = 0;
        for (let i = end + 1; i > 0; i -= i & -i) before += tree[i];
        sum += seen - before;
        for (let i = end + 1; i <= size; i += i & -i) tree[i]++;
      });
    }
    return sum;
  }

  // ---- across ----

  place() {
    for (const rank of this.ranks) {
      let x = 0;
      for (const v of rank) { v.x = x + v.width / 2; x += v.width + GAP_X; }
      for (const v of rank) v.x -= x / 2;
    }
    for (let sweep = 0; sweep < SWEEPS; sweep++) {
      for (const rank of this.ranks) settle(rank, ["above"]);
      for (const rank of [...this.ranks].reverse()) settle(rank, ["below"]);
    }
    for (const rank of this.ranks) settle(rank, ["above"]);
  }

  finish() {
    const left = smallest(this.vertices.map(v => v.x - v.width / 2)) ?? 0, right = largest(this.vertices.map(v => v.x + v.width / 2), left);
    for (const v of this.vertices) {
      v.x += GAP_X - left;
      v.y = GAP_X + v.rank * (BOX_HEIGHT + GAP_Y);
    }
    this.width = right - left + 2 * GAP_X;
    this.height = this.ranks.length * (BOX_HEIGHT + GAP_Y) - GAP_Y + 2 * GAP_X;
  }
}

// Puts a rank's vertices near their neighbours, in their order and without overlap: the least squares
// under these limits (pool adjacent violators).
function settle(rank, sides) {
  const blocks = [];
  let offset = 0, before = null;
  for (const v of rank) {
    if (before) offset += (before.width + v.width) / 2 + (before.lane && v.lane ? 0 : GAP_X);
    before = v;
    v.offset = offset;
    const near = sides.flatMap(side => v[side]), pulls = near.map(u => !u.pill && !u.lane === !v.lane ? 4 : 1);
    const weight = near.length ? (v.lane ? 4 : 1) : 0.01, sum = pulls.reduce((a, b) => a + b, 0);
    const wish = near.length ? near.reduce((x, u, i) => x + u.x * pulls[i], 0) / sum : v.x;
    let block = { at: wish - offset, weight, members: [v] };
    while (blocks.length && blocks.at(-1).at >= block.at) block = joined(blocks.pop(), block);
    blocks.push(block);
  }
  for (const b of blocks) for (const v of b.members) v.x = b.at + v.offset;
}

function joined(a, b) {
  const weight = a.weight + b.weight;
  for (const v of b.members) a.members.push(v);
  return { at: (a.at * a.weight + b.at * b.weight) / weight, weight, members: a.members };
}

// Curves between ranks, straight lines through them.
function edgePath(path) {
  let d = "";
  path.forEach((v, i) => {
    const y = v.y + (i ? 0 : BOX_HEIGHT);
    if (!i) { d = `M${round(v.x)},${round(y)}`; return; }
    const u = path[i - 1], from = u.y + BOX_HEIGHT, middle = (from + v.y) / 2;
    d += u.x === v.x ? `V${round(v.y)}` : `C${round(u.x)},${round(middle)} ${round(v.x)},${round(middle)} ${round(v.x)},${round(v.y)}`;
    if (i < path.length - 1) d += `V${round(v.y + BOX_HEIGHT)}`;
  });
  return d;
}

function round(v) {
  return Math.round(v * 10) / 10;
}
