// Everything else that the server said of the file, as it said it.

const LONG_LISTS = new Set(["nodes", "layers", "steps", "arena", "layer_estimates"]); // shown elsewhere
const MANY = 200;

function tree(value, depth = 0) {
  if (value === null || typeof value !== "object") return element("span", {}, value === null || value === "" ? MISSING : visible(value));
  const entries = Object.entries(value);
  if (!entries.length) return element("span", {}, MISSING);
  const plain = Array.isArray(value) && value.every(v => v === null || typeof v !== "object");
  if (plain) return element("span", {}, visible(value.slice(0, MANY).join(", ")) + (value.length > MANY ? `, … (${value.length})` : ""));
  const list = element("dl", { class: "tree" });
  for (const [key, v] of entries.slice(0, MANY)) list.append(element("dt", {}, visible(key)), element("dd", {}, branch(v, depth)));
  return list;
}

// Deep ones open when they are asked for.
function branch(value, depth) {
  if (value === null || typeof value !== "object" || depth < 1 || Object.keys(value).length === 0) return tree(value, depth + 1);
  const about = Array.isArray(value) ? `${value.length} values` : Object.keys(value).slice(0, 4).join(", ");
  const more = element("details", { toggle: () => { if (more.open && more.children.length === 1) more.append(tree(value, depth + 1)); } }, element("summary", {}, visible(about)));
  return more;
}

class FactsView {
  constructor(state) {
    const said = Object.fromEntries(Object.entries(state.model.data.description ?? {}).filter(([key]) => !LONG_LISTS.has(key)));
    this.root = element("div", { class: "view" }, element("h2", {}, "What the file says"),
      element("section", { class: "facts" }, tree(said)), element("h2", {}, "The server"), element("section", { class: "facts" }, tree(state.model.data.server ?? {})));
  }
}
