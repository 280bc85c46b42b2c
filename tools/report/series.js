// Whose time is meant. A board has its own. A software NPU has two: what the chip that it stands for
// would take, and what the machine took that computed in its place.

// What was measured of a layer or of all: of a software NPU "machine_run_us", of a board "run_us".
function measuredOf(object, name) {
  return object?.[name === "time_us" ? "machine_us" : `machine_${name}`] ?? object?.[name] ?? null;
}

// What the chip's CPU does is not estimated.
function estimateOf(item) {
  return (item.layer ? item.layer.estimate_us : item.estimate?.us) || null;
}

function isSoftware(data) {
  return data.profile?.timing ? data.profile.timing.device === "software" : ["sim", "emu"].includes(data.server?.backend);
}

// What takes its machine's time: the emulator, under its own name or within "open", or "sim".
function softwareName(server) {
  return ["emu", "open"].includes(server?.backend) ? "emulator" : "software NPU";
}

function estimatedChip(data) {
  return visible(data.profile?.timing?.estimate_chip || data.description?.estimate?.chip || data.server?.chip || "").toUpperCase();
}

// All of a run: what single layers need together is not what cores do at the same time.
function estimatedRun(data, items) {
  return data.profile?.estimate_run_us ?? data.description?.estimate?.us ?? items.reduce((sum, i) => sum + (estimateOf(i) ?? 0), 0);
}

function estimateSeries(data, items) {
  const chip = estimatedChip(data), left = data.profile?.timing?.unestimated_layers;
  return { key: "chip", title: `${chip} estimate`, what: `what the NPU of ${chip} would take`, of: estimateOf, run: estimatedRun(data, items),
    note: left ? `without ${left} layer${left === 1 ? "" : "s"} on its CPU` : null };
}

function measuredSeries(data) {
  const run = measuredOf(data.profile, "run_us")?.median, paced = data.profile?.timing?.paced, of = i => measuredOf(i.layer, "time_us");
  if (!isSoftware(data)) return { key: "measured", title: `${estimatedChip(data)}, measured`, what: "measured on the chip", of, run };
  return { key: "measured", title: "This machine", what: `what the ${softwareName(data.server)} took on the server's machine`, of, run,
    note: paced ? "made to last as long as on the chip" : null };
}

// [{ key, title, what: in words, note, of: item => microseconds or null, run: of all, sum: of items }]
function makeSeries(data, items) {
  const all = [estimateSeries(data, items), measuredSeries(data)].filter(s => items.some(i => isNumber(s.of(i))));
  for (const s of all) s.sum = items.reduce((sum, i) => sum + (s.of(i) ?? 0), 0);
  return all;
}
