// The pictures. Each takes one figure of the API's answer and a width in pixels, and returns
// an SVG drawn by Observable Plot. Nothing is computed here but places on the paper.

const { Plot, d3 } = globalThis;

const svgNode = "http://www.w3.org/2000/svg";
const style = { fontFamily: "inherit", fontSize: "12px", background: "none", color: "var(--ink-2)", overflow: "visible" };
const count = d3.format("~s");

// color is that of a kind of layer; an indexer beside another cache gives way to it.
export const color = (kind) => {
  const kinds = kind.split("+");
  return `var(--k-${(kinds.find((k) => k !== "indexer") ?? kinds[0]).replaceAll("_", "-")}, var(--k-other))`;
};
export const lineColor = (i) => `var(--line-${i})`;
const symbols = ["circle", "square", "triangle", "diamond"];

// tokens prints a length as people say it: 8k, 128k, 1m.
const tokens = (n) => (n >= 2 ** 20 && n % 2 ** 20 === 0 ? `${n / 2 ** 20}m` : n >= 2 ** 10 ? `${+(n / 2 ** 10).toFixed(1)}k` : String(n));

// hatched is a pattern of thin lines: what is stored once more.
function hatched() {
  const make = (name, attributes) => {
    const el = document.createElementNS(svgNode, name);
    for (const [k, v] of Object.entries(attributes)) el.setAttribute(k, v);
    return el;
  };
  const pattern = make("pattern", { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
  pattern.append(make("rect", { width: 5, height: 5, fill: "var(--copy-ground)" }), make("rect", { width: 2, height: 5, fill: "var(--copy)" }));
  const defs = make("defs", {});
  defs.append(pattern);
  return defs;
}

// Lines of a comparison are named inside the picture, above its frame, so that a saved one
// says what it shows.
const side = { marginLeft: 46, marginRight: 14, marginBottom: 38 };
const head = (labels) => 16 * labels.length + 36;
const above = (text, dy, options) => Plot.text([text], { frameAnchor: "top-left", dx: -side.marginLeft, dy, ...options });
const named = (labels, fill = lineColor) => labels.map((label, i) => above(label, 16 * i - head(labels) + 2, { fill: fill(i), fontWeight: 600 }));

// logarithmic is a y axis with few lines: powers of ten, and halves between where they are few.
function logarithmic(values, label, format) {
  const [low, high] = d3.extent(values);
  const domain = low == null ? [1, 10] : [low / 1.5, high * 1.5];
  const steps = Math.log10(domain[1] / domain[0]) > 2.2 ? [1] : [1, 2, 5];
  const ticks = d3.range(Math.floor(Math.log10(domain[0])), Math.ceil(Math.log10(domain[1])) + 1)
    .flatMap((e) => steps.map((m) => m * 10 ** e)).filter((v) => v >= domain[0] && v <= domain[1]);
  return {
    y: { type: "log", domain, axis: null },
    marks: [
      Plot.gridY(ticks, { stroke: "var(--grid)", strokeOpacity: 1 }),
      Plot.axisY(ticks, { text: format, tickSize: 0, label: null }),
      above(label, -22),
    ],
  };
}

const tip = (rows, x, y, title) => Plot.tip(rows, Plot.pointer({ x, y, title, fill: "var(--card)", stroke: "var(--edge)", fontSize: 12 }));
const dashed = { stroke: "var(--ink-2)", strokeDasharray: "2,4" };
const now = { stroke: "var(--now)", strokeWidth: 18, strokeLinecap: "round" };
const tall = 300;

// strips: a cell a rank. Above, the query heads, those of the rank lit; below, the strip of
// an unsplit model, what the rank stores of it filled; between, who reads what.
export function strips(s, width) {
  const n = s.ranks.length;
  const columns = Math.min(n, width < 480 || n <= 8 ? 4 : 8);
  const rows = Math.ceil(n / columns);
  const fan = rows > 4 ? 14 : rows > 2 ? 48 : rows > 1 ? 64 : 130;
  const strip = rows > 4 ? 10 : 20;
  const tall = 16 + 4 + fan + strip + (rows > 4 ? 14 : 20);
  const gap = Math.min(0.1, (columns * 10) / width);
  const x = (r, part) => (r.at % columns) + gap / 2 + part * (1 - gap);
  const y = (r, down) => Math.floor(r.at / columns) * tall + down;
  const ranks = s.ranks.map((r, at) => ({ ...r, at }));
  const heads = ranks.flatMap((r) => r.kv_heads.map((head) => ({ ...head, r })));
  const links = heads.flatMap((k) => d3.range(k.readers.first, k.readers.first + k.readers.count).map((q) => ({ q, k })));
  const top = 16 + 4 + fan;
  const share = s.token_ranks > 1 ? 1 / s.token_ranks : 1;
  const slice = (k) => (s.token_ranks > 1 ? k.r.rank % s.token_ranks : 0) * share * strip;
  return Plot.plot({
    width, height: rows * tall, margin: 0, style,
    x: { domain: [0, columns], range: [0, width], axis: null },
    y: { domain: [0, rows * tall], range: [0, rows * tall], axis: null },
    marks: [
      hatched,
      Plot.text(ranks, { x: (r) => x(r, 0), y: (r) => y(r, 6), text: (r) => (columns < 8 || width > 560 ? `rank ${r.rank}` : String(r.rank)), textAnchor: "start", fontSize: 11 }),
      Plot.rect(ranks, { x1: (r) => x(r, 0), x2: (r) => x(r, 1), y1: (r) => y(r, 16), y2: (r) => y(r, 19), fill: "var(--track)" }),
      Plot.rect(ranks, { x1: (r) => x(r, r.query_heads.first / s.query_heads), x2: (r) => x(r, (r.query_heads.first + r.query_heads.count) / s.query_heads), y1: (r) => y(r, 16), y2: (r) => y(r, 19), fill: "var(--query)" }),
      Plot.link(links, { x1: ({ q, k }) => x(k.r, (q + 0.5) / s.query_heads), x2: ({ k }) => x(k.r, (k.head + 0.5) / s.kv_heads), y1: ({ k }) => y(k.r, 20), y2: ({ k }) => y(k.r, top), stroke: "var(--query)", strokeOpacity: links.length > 300 ? 0.3 : 0.55, strokeWidth: 0.8 }),
      Plot.rect(ranks, { x1: (r) => x(r, 0), x2: (r) => x(r, 1), y1: (r) => y(r, top), y2: (r) => y(r, top + strip), fill: "var(--track)", rx: 1.5 }),
      n * s.kv_heads > 300 ? null : Plot.link(ranks.flatMap((r) => d3.range(1, s.kv_heads).map((k) => ({ r, k }))), { x: ({ r, k }) => x(r, k / s.kv_heads), y1: ({ r }) => y(r, top), y2: ({ r }) => y(r, top + strip), stroke: "var(--card)" }),
      Plot.rect(heads, {
        x1: (k) => x(k.r, k.head / s.kv_heads), x2: (k) => x(k.r, (k.head + 1) / s.kv_heads), insetLeft: 0.5, insetRight: 0.5,
        y1: (k) => y(k.r, top) + slice(k), y2: (k) => y(k.r, top) + slice(k) + share * strip,
        fill: (k) => (k.copy > 1 ? "url(#hatch)" : s.architecture === "MLA" ? color("mla") : color("full_attention")),
        rx: 1.5, title: stripTitle(s),
      }),
    ],
  });
}

const stripTitle = (s) => (k) => `rank ${k.r.rank}: ${s.architecture === "MLA" ? "the latent" : `KV head ${k.head}`}`
  + (k.copies > 1 ? `, copy ${k.copy} of ${k.copies}` : "") + `\nread by query heads ${k.readers.first} to ${k.readers.first + k.readers.count - 1}`;

const fixedParts = { weights: "var(--m-weights)", kv_pool: "var(--m-pool)", free: "var(--m-free)", not_known: "var(--m-free)" };
const termColors = 8;

// parts are the uses of the memory by name, the engine's own terms in colours of their own
// and in their order, between the weights and the pool.
export function parts(m) {
  const all = m.bars.flatMap((bar) => bar.parts).filter((part) => part.bytes > 0);
  const place = (part) => ({ weights: -1, kv_pool: 1, not_known: 2, free: 3 })[part.name] ?? 0;
  const found = new Map();
  let term = 0;
  for (const part of d3.sort(all, place)) {
    if (!found.has(part.name)) found.set(part.name, { label: part.label, color: fixedParts[part.name] ?? `var(--m-${term++ % termColors})` });
  }
  return found;
}

const gib = 2 ** 30;

// memory: a bar a layout, in the order in which the engine takes its parts; what does not fit
// stands beyond the end of the device.
export function memory(m, width) {
  const colors = parts(m);
  const uses = m.bars.flatMap((bar) => bar.parts.filter((part) => part.bytes > 0).map((part) => ({ ...part, bar: bar.label })));
  const several = m.bars.length > 1;
  const most = d3.max(m.bars, (b) => Math.max(b.total_bytes, d3.sum(b.parts, (p) => p.bytes))) / gib;
  const roomy = (p) => (p.bytes / gib / most) * width > 7.2 * p.label.length + 8;
  const stack = { order: null, y: "bar", x: (p) => p.bytes / gib };
  const inset = { insetTop: several ? 22 : 4, insetBottom: several ? 8 : 4 };
  const tall = several ? 60 : 44;
  return Plot.plot({
    width, height: 32 + tall * m.bars.length, marginLeft: 1, marginRight: 14, marginTop: 0, marginBottom: 32, style,
    x: { domain: [0, most], label: "GiB", labelAnchor: "right", labelArrow: "none", tickSize: 4, ticks: Math.min(10, width / 70) },
    y: { axis: null, domain: m.bars.map((b) => b.label), padding: 0 },
    marks: [
      Plot.barX(uses, Plot.stackX({ ...stack, ...inset, fill: (p) => colors.get(p.name).color, insetRight: 1, rx: 1, title: (p) => `${p.label}: ${d3.format(",")(p.bytes)} B\n${p.source}` })),
      Plot.text(uses, Plot.stackX({ ...stack, dy: (inset.insetTop - inset.insetBottom) / 2, text: (p) => (roomy(p) ? p.label : ""), fill: (p) => (["free", "not_known"].includes(p.name) ? "var(--ink-2)" : "var(--on-bar)"), fontWeight: 600 })),
      several ? Plot.text(m.bars, { y: "label", x: 0, text: (b) => b.label + (b.refused ? ": refused" : ""), dy: -20, textAnchor: "start", fontWeight: 600, fill: "var(--ink)" }) : null,
      Plot.tickX(m.bars, { x: (b) => b.total_bytes / gib, y: "label", stroke: "var(--ink)", strokeWidth: 2, insetTop: inset.insetTop - 4, insetBottom: inset.insetBottom - 4, title: (b) => `${b.accelerator}: ${d3.format(",")(b.total_bytes)} B` }),
    ],
  });
}

// capacity: tokens against TP, or, where no pool is known, the bytes of a token.
export function capacity(c, width, tp) {
  const { pooled } = c;
  const value = (p) => (pooled ? p.tokens : p.bytes_per_token);
  const points = c.lines.flatMap((line, i) => line.points.map((p) => ({ ...p, i, label: line.label, full: line.saturates_at === p.tp })));
  const known = points.filter((p) => value(p) != null && !p.refused);
  const sizes = [...new Set(points.map((p) => p.tp))];
  const labels = c.lines.map((line) => line.label);
  const y = pooled ? logarithmic(known.map(value), "tokens", count) : logarithmic(known.map(value), "bytes of a token on a rank", count);
  return Plot.plot({
    ...side, width, height: tall, marginTop: head(labels), style, y: y.y,
    x: { type: "point", domain: sizes, label: "tensor parallel size", labelAnchor: "right", tickSize: 0, padding: 0.25 },
    symbol: { range: symbols, domain: [0, 1, 2, 3] },
    marks: [
      sizes.includes(tp) ? Plot.ruleX([tp], now) : null,
      ...y.marks,
      c.crossovers.length ? Plot.ruleX(c.crossovers, { x: "tp", ...dashed, title: "text" }) : null,
      Plot.lineY(known, { x: "tp", y: value, z: "i", stroke: (p) => lineColor(p.i), strokeWidth: 2 }),
      Plot.dot(known, { x: "tp", y: value, symbol: "i", fill: (p) => lineColor(p.i), r: 3.5 }),
      Plot.dot(known.filter((p) => p.full), { x: "tp", y: value, stroke: (p) => lineColor(p.i), r: 8, strokeWidth: 1.5 }),
      c.lines.map((line, i) => Plot.text(points.filter((p) => p.i === i && p.refused), { x: "tp", frameAnchor: "bottom", text: () => "×", fill: lineColor(i), dx: 9 * (i - (c.lines.length - 1) / 2), fontSize: 14, title: (p) => `${p.layout}: ${p.refused}` })),
      named(labels),
      tip(known, "tp", value, (p) => `${p.label}\n${p.layout}${pooled ? `: ${d3.format(",")(p.tokens)} tokens` : ""}\n${d3.format(",")(p.bytes_per_token)} B a token on a rank, ${p.kv_replication}× kept`),
    ],
  });
}

// requests: how many fit against their length.
export function requests(r, width) {
  const points = r.lines.flatMap((line) => line.points.map((p) => ({ ...p, i: line.line, label: line.label }))).filter((p) => p.requests > 0);
  const labels = r.lines.map((line) => line.label);
  const y = logarithmic(points.map((p) => p.requests), "requests", count);
  const lengths = [...new Set(points.map((p) => p.tokens))].sort(d3.ascending);
  const every = Math.ceil(lengths.length / (width / 46));
  const apart = (n, i) => i % every === 0 && !(lengths[i + 1] < 1.7 * n);
  return Plot.plot({
    ...side, width, height: tall, marginTop: head(labels), style, y: y.y,
    x: { type: "log", base: 2, label: "tokens a request", labelAnchor: "right", labelArrow: "none", ticks: lengths.filter(apart), tickFormat: tokens, tickSize: 0 },
    symbol: { range: symbols, domain: [0, 1, 2, 3] },
    marks: [
      ...y.marks,
      Plot.ruleY([1].filter((v) => v > y.y.domain[0] && v < y.y.domain[1]), { ...dashed, title: () => "one request" }),
      Plot.lineY(points, { x: "tokens", y: "requests", z: "i", sort: "tokens", stroke: (p) => lineColor(p.i), strokeWidth: 2 }),
      Plot.dot(points, { x: "tokens", y: "requests", symbol: "i", fill: (p) => lineColor(p.i), r: 3 }),
      named(labels, (at) => lineColor(r.lines[at].line)),
      tip(points, "tokens", "requests", (p) => `${p.label}\n${d3.format(",.2f")(p.requests)} requests of ${d3.format(",")(p.tokens)} tokens`),
    ],
  });
}

// roofline: where decode attention stands under the device's limits, at the sizes of TP.
export function roofline(f, width, tp) {
  const lines = f.ceilings.flatMap((c, i) => c.line.map((p) => ({ ...p, i })));
  const labels = f.ceilings.map((c) => c.label);
  const y = logarithmic([...lines, ...f.points].map((p) => p.y), "FLOP/s", count);
  const here = (p) => p.tp.includes(tp);
  return Plot.plot({
    ...side, width, height: tall, marginTop: head(labels), style, y: y.y,
    x: { type: "log", base: 2, label: "FLOP/byte", labelAnchor: "right", labelArrow: "none", tickFormat: d3.format("~r"), ticks: Math.min(10, width / 60), tickSize: 0 },
    marks: [
      ...y.marks,
      f.ridge_flop_per_byte ? Plot.ruleX([f.ridge_flop_per_byte], dashed) : null,
      f.ridge_flop_per_byte ? Plot.text([f.ridge_flop_per_byte], { x: (v) => v, frameAnchor: "bottom", text: (v) => `ridge ${Math.round(v)}`, textAnchor: "end", dx: -5, dy: -4 }) : null,
      Plot.line(lines, { x: "x", y: "y", z: "i", stroke: "var(--ink-2)", strokeWidth: 2 }),
      Plot.dot(f.points, { x: "x", y: "y", fill: (p) => color(p.kind), r: (p) => (here(p) ? 6.5 : 4), stroke: "var(--card)", strokeWidth: 1.5 }),
      Plot.text(f.points, { x: "x", y: "y", text: (p) => p.label.slice(p.label.lastIndexOf("TP")), dx: 9, dy: 8, textAnchor: "start", fontSize: 11, fill: (p) => (here(p) ? "var(--ink)" : "var(--ink-2)") }),
      named(labels, () => "var(--ink-2)"),
      tip(f.points, "x", "y", (p) => `${p.label}\n${d3.format(".3~r")(p.x)} FLOP/byte: at most ${d3.format(".3s")(p.y)}FLOP/s\nbound by ${p.bound}`),
    ],
  });
}

// layers: one cell a layer, coloured by what it caches.
export function layers(l, width) {
  const cells = l.row.flatMap((run) => d3.range(run.layers).map((i) => ({ kind: run.kind, at: run.first + i })));
  const columns = width < 480 && cells.length > 64 ? Math.ceil(cells.length / 2) : cells.length;
  const rows = Math.ceil(cells.length / columns);
  const label = new Map(l.kinds.map((k) => [k.kind, k]));
  const inset = width / columns > 6 ? 1 : 0.5;
  return Plot.plot({
    width, height: 36 * rows + 22, marginLeft: 0, marginRight: 0, marginTop: 0, marginBottom: 22, style,
    x: { domain: [0, columns], label: null, tickSize: 0, ticks: rows > 1 ? [] : d3.range(0, columns, 10), tickFormat: "d" },
    y: { domain: [0, rows], range: [0, 36 * rows], axis: null },
    marks: [
      Plot.rect(cells, { x1: (c) => c.at % columns, x2: (c) => (c.at % columns) + 1, y1: (c) => Math.floor(c.at / columns), y2: (c) => Math.floor(c.at / columns) + 1, insetTop: 2, insetBottom: 2, insetLeft: inset, insetRight: inset, rx: 1,
        fill: (c) => color(c.kind), title: (c) => `layer ${c.at}: ${label.get(c.kind).label}\n${label.get(c.kind).caches}` }),
    ],
  });
}
