// Tables: sortable, the first column always in sight, and of long ones only the rows in sight are
// there.
//
// A column: { key, title, hint, value: row => what to sort by, cell: (value, row) => text or element,
//             number, bar: row => share of the longest bar, minor: left out on paper }

const ROW_HEIGHT = 30; // pixels, as --row in table.css
const ROWS_AROUND = 12;
const ALL_ROWS = 60; // so many are simply there

class Table {
  constructor({ label, columns, rows, onSelect, classOf = () => "", sortBy = null }) {
    Object.assign(this, { columns, rows, onSelect, classOf });
    this.shown = rows;
    this.sort = sortBy;
    this.current = null;
    this.body = element("tbody");
    this.heads = columns.map(c => this.head(c));
    this.table = element("table", { "aria-label": label }, element("thead", {}, element("tr", {}, ...this.heads)), this.body);
    this.holder = element("div", { class: "table", scroll: () => this.draw() }, this.table);
    this.holder.addEventListener("keydown", event => this.onKey(event));
    new ResizeObserver(() => this.draw()).observe(this.holder);
    this.whole = false;
    this.update();
  }

  head(column) {
    const sort = button(column.title, () => this.sortBy(column.key), { title: column.hint });
    const numbers = column.number ? "number" : "";
    return element("th", { scope: "col", class: `${numbers} ${column.minor ? "minor" : ""} c-${column.key}`,
      "data-key": column.key, style: { width: this.width(column) } }, sort);
  }

  // As wide as the longest text, within limits: rows that come into sight must not move columns.
  width(column) {
    if (column.width) return column.width;
    let longest = column.title.length + 2;
    for (const row of this.rows.slice(0, 5000)) {
      const text = this.text(column, row);
      if (text.length > longest) longest = text.length;
    }
    return `${Math.min(30, longest) * 0.56 + 1.4}em`;
  }

  text(column, row) {
    const value = column.value(row);
    const cell = column.cell ? column.cell(value, row) : value ?? MISSING;
    return cell instanceof Node ? cell.textContent : visible(cell);
  }

  // Numbers begin with the largest, texts with A; once more turns it round.
  sortBy(key) {
    const column = this.columns.find(c => c.key === key);
    const down = this.sort?.key === key ? !this.sort.down : !!column.number && !column.upward;
    this.setSort(key, down);
  }

  setSort(key, down) {
    this.sort = { key, down };
    this.update();
    this.holder.scrollTop = 0;
  }

  // Keeps the rows for which keep() is true.
  filter(keep) {
    this.keep = keep;
    this.update();
  }

  update() {
    const rows = this.keep ? this.rows.filter(this.keep) : [...this.rows];
    const column = this.sort && this.columns.find(c => c.key === this.sort.key);
    if (column) rows.sort((a, b) => compareValues(column.value(a), column.value(b), this.sort.down));
    this.shown = rows;
    this.columns.forEach((c, i) => {
      if (c === column) this.heads[i].setAttribute("aria-sort", this.sort.down ? "descending" : "ascending");
      else this.heads[i].removeAttribute("aria-sort");
    });
    this.table.setAttribute("aria-rowcount", rows.length + 1);
    this.from = this.to = -1;
    this.draw();
  }

  // The rows in sight, between two that are as high as all above and all below.
  draw() {
    const n = this.shown.length, all = this.whole || n <= ALL_ROWS;
    const first = all ? 0 : Math.max(0, Math.floor(this.holder.scrollTop / ROW_HEIGHT) - ROWS_AROUND);
    const count = all ? n : Math.ceil((this.holder.clientHeight || 800) / ROW_HEIGHT) + 2 * ROWS_AROUND;
    const last = Math.min(n, first + count);
    if (first === this.from && last === this.to) return;
    this.from = first;
    this.to = last;
    this.entrance = this.shown.includes(this.current) ? this.current : this.shown[first];
    const lines = this.shown.slice(first, last).map((row, i) => this.line(row, first + i));
    if (!n) lines.push(element("tr", { class: "none" }, element("td", { colspan: this.columns.length }, "Nothing matches.")));
    this.body.replaceChildren(this.space(first), ...lines, this.space(n - last));
  }

  space(rows) {
    return element("tr", { class: "space", hidden: rows === 0, "aria-hidden": "true", style: { height: `${rows * ROW_HEIGHT}px` } });
  }

  line(row, index) {
    const cells = this.columns.map((c, i) => this.cell(c, row, i));
    const line = element("tr", { class: this.classOf(row), "aria-rowindex": index + 2,
      "aria-selected": this.onSelect && String(row === this.current),
      tabindex: this.onSelect && (row === this.entrance ? "0" : "-1") }, ...cells);
    if (this.onSelect) line.addEventListener("click", () => this.choose(row, true));
    return line;
  }

  cell(column, row, index) {
    const value = column.value(row);
    const shown = column.cell ? column.cell(value, row) : value ?? MISSING;
    const name = index === 0 ? "th" : "td", bar = column.bar?.(row);
    const cell = element(name, { class: `${column.number ? "number" : ""} ${column.minor ? "minor" : ""}`, scope: index === 0 && "row" },
      shown instanceof Node ? shown : element("span", { class: "text" }, visible(shown)));
    if (isNumber(bar)) cell.prepend(element("i", { class: `bar ${column.barClass?.(row) ?? ""}`, style: { width: `${100 * Math.min(1, bar)}%` } }));
    else if (!column.number && !(shown instanceof Node) && String(shown).length > 16) cell.title = visible(shown);
    return cell;
  }

  // By the user here, or (open false) from elsewhere.
  choose(row, open) {
    this.current = row;
    this.from = -1;
    this.draw();
    if (open) this.onSelect(row);
  }

  scrollTo(row) {
    const index = this.shown.indexOf(row), top = index * ROW_HEIGHT, { scrollTop, clientHeight } = this.holder;
    if (index < 0 || (top >= scrollTop && top + 2 * ROW_HEIGHT <= scrollTop + clientHeight)) return;
    this.holder.scrollTop = top - clientHeight / 2;
    this.draw();
  }

  onKey(event) {
    if (!this.onSelect || !event.target.closest("tbody")) return;
    const page = Math.max(1, Math.floor(this.holder.clientHeight / ROW_HEIGHT) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const at = Number(event.target.closest("tr").getAttribute("aria-rowindex")) - 2;
    if (event.key in steps) this.moveTo(Math.max(0, Math.min(this.shown.length - 1, at + steps[event.key])));
    else if (event.key === "Enter" || event.key === " ") this.choose(this.shown[at], true);
    else return;
    event.preventDefault();
  }

  moveTo(index) {
    this.current = this.shown[index];
    this.scrollTo(this.current);
    this.choose(this.current, true);
    this.body.querySelector("tr[aria-selected=true]")?.focus({ preventScroll: true });
  }

  // On paper there is no scrolling.
  showWhole(whole) {
    this.whole = whole;
    this.from = -1;
    this.draw();
  }
}

// What is not known comes last, whichever way round.
function compareValues(a, b, down) {
  const missingA = a === null || a === undefined, missingB = b === null || b === undefined;
  if (missingA || missingB) return missingA - missingB;
  const order = typeof a === "number" && typeof b === "number" ? a - b
    : String(a).localeCompare(String(b), "en", { numeric: true });
  return down ? -order : order;
}
