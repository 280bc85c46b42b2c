// Elements. Whatever comes from a model goes through here, as text or as the value of an attribute:
// nothing in this page is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";
const SVG_NAMES = new Set(["svg", "g", "rect", "text", "path", "line", "circle", "title", "defs", "marker"]);

function element(name, attributes = {}, ...children) {
  const e = SVG_NAMES.has(name) ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) setAttribute(e, key, value);
  e.append(...children.filter(c => c !== null && c !== undefined));
  return e;
}

// undefined, null and false leave it out; functions listen to the event of that name.
function setAttribute(e, key, value) {
  if (value === undefined || value === null || value === false) return;
  if (typeof value === "function") e.addEventListener(key, value);
  else if (key === "style") Object.assign(e.style, value);
  else e.setAttribute(key, value === true ? "" : value);
}

// A name whose end stays visible where it is cut: names differ at their ends.
function nameElement(name) {
  const text = visible(name), tail = text.length < 8 ? 0 : Math.min(10, Math.floor(text.length / 2));
  return element("span", { class: "name", title: text },
    element("span", { class: "head" }, text.slice(0, text.length - tail)),
    element("span", { class: "tail" }, text.slice(text.length - tail)));
}

function button(text, onClick, attributes = {}) {
  return element("button", { type: "button", click: onClick, ...attributes }, text);
}

// A choice of a few: buttons of which one is pressed. choices: [value, text, title].
function choice(label, choices, chosen, onChange) {
  const group = element("div", { class: "choice", role: "group", "aria-label": label });
  const buttons = choices.map(([value, text, title]) => button(text, () => {
    for (const b of buttons) b.setAttribute("aria-pressed", b.value === String(value));
    onChange(value);
  }, { value, title, "aria-pressed": String(value === chosen) }));
  group.append(...buttons);
  return group;
}

function select(label, choices, chosen, onChange) {
  const list = element("select", { change: () => onChange(list.value) },
    ...choices.map(([value, text]) => element("option", { value, selected: value === chosen }, text)));
  return element("label", { class: "select" }, label, list);
}

// Calls draw(width) now and whenever the element gets another width.
function drawnToWidth(holder, draw) {
  let last = 0;
  new ResizeObserver(([entry]) => {
    const width = Math.floor(entry.contentRect.width);
    if (width > 0 && width !== last) draw(last = width);
  }).observe(holder);
  return () => last && draw(last);
}
