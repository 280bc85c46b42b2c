// What can be done without a pointer.

const KEYS = [["/", "find layers; Enter goes to the next one"], ["1 … 6, or the arrows on a tab", "another view"], ["↑ ↓ Page Home End", "another layer in a table"], ["← → ↑ ↓", "another layer in the graph, in the run or in the curve"],
  ["+ − 0 1", "zoom the graph; all of it; as large as text"], ["Ctrl and the wheel", "zoom the graph or the timeline"], ["Enter", "all that is known of a layer"], ["Esc", "close, or end the search"], ["?", "this list"]];

function keysDialog() {
  const dialog = document.getElementById("keys");
  if (!dialog.firstChild)
    dialog.append(element("h2", { id: "keys-title" }, "Keys"), element("dl", {}, ...KEYS.flatMap(([key, what]) => [element("dt", {}, element("kbd", {}, key)), element("dd", {}, what)])),
      button("Close", () => dialog.close()));
  dialog.showModal();
}

function isTyping(target) {
  return target.closest?.("input, select, textarea, dialog") !== null;
}

function watchKeys(state, page) {
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") escape(state);
    else if (isTyping(event.target) || event.defaultPrevented) return;
    else if (event.key === "/") { event.preventDefault(); document.getElementById("query").focus(); }
    else if (event.key === "?") keysDialog();
    else if (/^[1-9]$/.test(event.key)) page.showNumber(Number(event.key) - 1);
  });
}

// One thing at a time.
function escape(state) {
  const query = document.getElementById("query");
  if (document.getElementById("keys").open) return;
  if (!tooltipBox().hidden) hideTip();
  else if (document.activeElement === query && query.value) { query.value = ""; state.setQuery(""); }
  else if (document.activeElement === query) query.blur();
  else if (state.selected) state.select(null);
  else if (state.query) { query.value = ""; state.setQuery(""); }
}
