// Numbers as people read them.

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB"];
const MISSING = "–";

// Characters that show nothing, or turn other text round, as a sign of their own.
function visible(text) {
  return String(text ?? "").replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, "\ufffd");
}

function isNumber(v) {
  return typeof v === "number" && Number.isFinite(v);
}

function formatBytes(n) {
  if (!isNumber(n)) return MISSING;
  let unit = 0;
  while (n >= 1024 && unit < BYTE_UNITS.length - 1) { n /= 1024; unit++; }
  return `${unit ? significant(n, 3) : n} ${BYTE_UNITS[unit]}`;
}

// 3 digits that count, no exponent, no zeros after the point that say nothing.
function significant(n, digits) {
  if (n === 0) return "0";
  const whole = Math.max(0, Math.floor(Math.log10(Math.abs(n))) + 1);
  return n.toFixed(Math.min(12, Math.max(0, digits - (whole || Math.floor(Math.log10(Math.abs(n))) + 1))));
}

function formatUs(us) {
  if (!isNumber(us)) return MISSING;
  if (us >= 1e6) return `${significant(us / 1e6, 3)} s`;
  if (us >= 1e3) return `${significant(us / 1e3, 3)} ms`;
  return `${significant(us, 3)} µs`;
}

function formatRate(us) {
  const rate = 1e6 / us;
  return us > 0 ? `${rate < 1000 ? significant(rate, 3) : formatInteger(Math.round(rate))} FPS` : MISSING;
}

function formatPercent(share, digits = 3) {
  return isNumber(share) ? `${significant(100 * share, digits)} %` : MISSING;
}

// 577548288: "578 M".
function formatCount(n) {
  if (!isNumber(n)) return MISSING;
  for (const [size, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (n >= size) return `${significant(n / size, 3)} ${unit}`;
  return String(n);
}

function formatInteger(n) {
  return isNumber(n) ? n.toLocaleString("en-US") : MISSING;
}

function formatShape(shape) {
  return Array.isArray(shape) ? shape.map(d => d ?? "?").join("×") || "scalar" : MISSING;
}

function formatDate(text) {
  const date = new Date(text ?? NaN);
  return isNaN(date) ? MISSING : `${date.toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

function formatTensor(t) {
  return t ? [t.shape && formatShape(t.shape), t.type].filter(Boolean).map(visible).join(" ") : MISSING;
}

// About n round numbers from 0 to `most`.
function ticks(most, n, base = 10) {
  if (!(most > 0)) return [0];
  const raw = most / Math.max(1, n), size = base ** Math.floor(Math.log(raw) / Math.log(base));
  const steps = base === 2 ? [1, 2] : [1, 2, 5, 10];
  const step = size * (steps.find(s => s * size >= raw) ?? steps.at(-1));
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, i) => i * step);
}

function largest(list, least = 0) {
  return list.reduce((most, v) => v > most ? v : most, least);
}

function smallest(list) {
  return list.length ? list.reduce((least, v) => v < least ? v : least) : null;
}
