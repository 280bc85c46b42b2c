// One box near the pointer, or near what has the focus, that says more of it.

const tips = new WeakMap();

// tip() is asked when it is needed: [title, [[name, value], …]].
function withTip(e, tip) {
  tips.set(e, tip);
  return e;
}

function tooltipBox() {
  return document.getElementById("tooltip");
}

function showTip([title, lines], x, y) {
  const box = tooltipBox();
  box.replaceChildren(element("b", {}, visible(title)),
    element("dl", {}, ...lines.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, visible(value))])));
  box.hidden = false;
  const { width, height } = box.getBoundingClientRect();
  const right = document.documentElement.clientWidth - width - 8, below = y + 16;
  box.style.left = `${Math.max(8, Math.min(x + 12, right))}px`;
  box.style.top = `${below + height > innerHeight - 8 ? Math.max(8, y - height - 12) : below}px`;
}

function hideTip() {
  tooltipBox().hidden = true;
}

function tipAt(target) {
  for (let e = target; e instanceof Element; e = e.parentElement)
    if (tips.has(e)) return e;
  return null;
}

function watchTips() {
  document.addEventListener("pointermove", event => {
    const e = tipAt(event.target);
    if (e) showTip(tips.get(e)(event), event.clientX, event.clientY);
    else hideTip();
  });
  document.addEventListener("focusin", event => {
    const e = tipAt(event.target);
    if (!e || !event.target.matches(":focus-visible")) return;
    const { left, bottom } = e.getBoundingClientRect();
    showTip(tips.get(e)(event), left, bottom - 12);
  });
  document.addEventListener("focusout", hideTip);
  document.addEventListener("scroll", hideTip, true);
}

// What is to be said of an item wherever it is drawn.
function itemTip(state, item) {
  const lines = [["operator", item.op]];
  for (const s of state.model.series) if (isNumber(s.of(item))) lines.push([s.title, formatUs(s.of(item))]);
  if (isNumber(state.shareOf(item))) lines.push(["share", formatPercent(state.shareOf(item))]);
  if (item.device) lines.push(["runs on", item.device]);
  if (isNumber(item.error)) lines.push(["error", formatPercent(item.error)]);
  if (item.outputs[0]) lines.push(["output", formatTensor(item.outputs[0])]);
  return [item.name || item.op, lines];
}
