// The page: reads what is asked from the address, asks the server, shows its answer.

import { $, h, say } from "./dom.js";
import { state, read, write, body, keep, other, maxOthers } from "./state.js";
import * as api from "./api.js";
import * as form from "./form.js";
import * as report from "./report.js";
import * as verify from "./verify.js";
import { figure } from "./figure.js";
import * as charts from "./charts.js";

// The figures of an answer, and what they are called when there is nothing to draw.
const headings = {
  strips: "KV heads of each rank", memory: "Memory of one GPU", capacity: "Tokens that one replica holds",
  requests: "Requests that one replica holds", roofline: "Decode attention under the roof", layers: "Layers",
};

let show;

// cards build the figures and return what fills them.
function cards() {
  const opened = (id, open) => {
    if (open) state.open.add(id);
    else state.open.delete(id);
    write(false);
  };
  const card = (name, spec) => figure($(`card-${name}`), { name, opened, ...spec });
  const tp = () => Number(state.tp);
  return {
    strips: card("strips", {
      none: "No heads to show.", chart: charts.strips,
      label: (s) => `${s.title}: ${s.query_heads} query heads, ${s.kv_heads} ${s.architecture === "MLA" ? "latent" : "KV heads"} over ${s.ranks.length} ranks`,
      legend: (s) => stripsLegend(s),
      table: (s) => ({
        columns: ["rank", "query heads", "stores", "copy", "of", "bytes a token"],
        rows: s.ranks.flatMap((r) => r.kv_heads.map((k) => [r.rank, `${r.query_heads.first} to ${r.query_heads.first + r.query_heads.count - 1}`, s.architecture === "MLA" ? "latent" : `KV head ${k.head}`, k.copy, k.copies, r.bytes_per_token])),
      }),
    }),
    memory: card("memory", {
      none: "The memory of a GPU needs an accelerator.", chart: charts.memory,
      label: (m) => m.bars.map((b) => `${b.label} on ${b.accelerator}: ` + b.parts.map((p) => p.label).join(", ")).join(". "),
      legend: (m) => [...charts.parts(m).values()].map((part) => key(part.color, part.label)),
      table: (m) => ({ columns: ["layout", "part", "bytes", "p10", "p90", "source"], rows: m.bars.flatMap((b) => b.parts.map((p) => [b.label, p.label, p.bytes, p.p10, p.p90, p.source])) }),
    }),
    capacity: card("capacity", {
      none: "No layout of this model is legal.", chart: (c, width) => charts.capacity(c, width, tp()),
      label: (c) => `${c.title} against tensor parallel size: ${c.lines.map((l) => l.label).join("; ")}`,
      legend: (c) => c.crossovers.map((x) => h("p", { text: x.text })),
      controls: h("div", { class: "chips" }, chips, compare, hold),
      table: (c) => ({
        columns: ["line", "TP", "tokens", "requests", "bytes a token on a rank", "copies", "refused"],
        rows: c.lines.flatMap((l) => l.points.map((p) => [l.label, p.tp, p.tokens, p.requests, p.bytes_per_token, p.kv_replication, p.refused])),
      }),
    }),
    requests: card("requests", {
      none: "Requests need a pool: choose an accelerator, or give the pool of a rank.", chart: (r, width) => charts.requests(r, width),
      label: (r) => `${r.title} against their length: ${r.lines.map((l) => l.label).join("; ")}`,
      table: (r) => ({ columns: ["line", "tokens", "requests"], rows: r.lines.flatMap((l) => l.points.map((p) => [l.label, p.tokens, p.requests])) }),
    }),
    roofline: card("roofline", {
      none: "A roofline needs an accelerator whose peak and bandwidth are known.", chart: (f, width) => charts.roofline(f, width, tp()),
      label: (f) => `${f.title}: ${f.points.map((p) => p.label).join("; ")}`,
      legend: (f) => [...new Map(f.points.map((p) => [p.kind, p])).values()].map((p) => key(charts.color(p.kind), p.label.split(", ")[0])),
      table: (f) => ({ columns: ["point", "FLOP/byte", "FLOP/s at most", "share of the ridge", "bound by"], rows: f.points.map((p) => [p.label, p.x, p.y, p.share_of_ridge, p.bound]) }),
    }),
    layers: card("layers", {
      none: "The layers are not known.", chart: charts.layers,
      label: (l) => `${l.title}: ${l.kinds.map((k) => `${k.layers} ${k.label}`).join(", ")}`,
      legend: (l) => l.kinds.map((k) => key(charts.color(k.kind), `${k.layers} × ${k.label}`, k.caches)),
      table: (l) => ({ columns: ["first layer", "layers", "kind", "what one layer keeps on a rank"], rows: l.row.map((r) => [r.first, r.layers, l.kinds.find((k) => k.kind === r.kind).label, l.kinds.find((k) => k.kind === r.kind).caches]) }),
    }),
  };
}

// key is one entry of a legend; without a fill, what is stored once more.
function key(fill, text, more) {
  const swatch = h("i", { class: fill ? "swatch" : "swatch copy" });
  if (fill) swatch.style.setProperty("--fill", fill);
  return h("p", { class: "key" }, swatch, h("span", {}, text, more && h("span", { class: "muted", text: ` ${more}` })));
}

function stripsLegend(s) {
  const mla = s.architecture === "MLA";
  const entries = [key("var(--query)", "query heads the rank computes"), key(charts.color(mla ? "mla" : "full_attention"), mla ? "the latent" : "KV heads it stores")];
  if (s.ranks.some((r) => r.kv_heads.some((k) => k.copy > 1))) entries.push(key(null, "a copy: another rank has it too"));
  if (s.more) entries.push(h("p", { text: `and ${s.more} more ranks` }));
  return entries;
}

// The lines of the comparison, to take away and to add: another model, or what is asked now.
const chips = h("span", { class: "chips" });
const compare = h("select", { "aria-label": "Compare with another model", onchange: (e) => {
  state.with.push(e.target.value);
  e.target.value = "";
  changed();
} }, h("option", { value: "", text: "Compare with…" }));
const hold = h("button", { type: "button", class: "link", text: "Hold this layout", onclick: () => {
  state.with.push(keep());
  changed();
} });

function showOthers() {
  chips.replaceChildren(...state.with.map((text, i) => h("span", { class: "chip" }, text.replaceAll("~", " · "),
    h("button", { type: "button", "aria-label": `Take ${other(text).model} away`, text: "×", onclick: () => {
      state.with.splice(i, 1);
      changed();
    } }))));
  compare.hidden = state.with.length === maxOthers;
  hold.hidden = compare.hidden || state.config !== null;
}

let asking = new AbortController();

// ask is the answer to the question with the lines beside it. Where one of those is of no
// use, it is the answer without them, and what is wrong.
async function ask(signal) {
  try {
    return [await api.figures(body(state.with), signal), null];
  } catch (err) {
    if (err.status !== 422 || state.with.length === 0) throw err;
    return [await api.figures(body([]), signal), err];
  }
}

// changed asks again and shows the answer. What comes late is dropped.
async function changed(step = true) {
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  $("answer").setAttribute("aria-busy", "true");
  try {
    const [[answer, beside]] = await Promise.all([ask(signal), write(step)]);
    show(answer);
    if (beside) report.showProblem(beside);
  } catch (err) {
    if (err.name === "AbortError") return;
    if (!(err instanceof api.Problem)) throw err;
    report.showProblem(err);
    say(err.message);
  } finally {
    if (!signal.aborted) $("answer").setAttribute("aria-busy", "false");
  }
}

// views are the two tabs.
function views() {
  const tabs = ["plan", "verify"];
  const select = (view, keepStep) => {
    state.view = view;
    for (const name of tabs) {
      $(name).hidden = name !== view;
      $(`tab-${name}`).setAttribute("aria-selected", String(name === view));
      $(`tab-${name}`).tabIndex = name === view ? 0 : -1;
    }
    if (keepStep) write(true);
  };
  for (const name of tabs) {
    $(`tab-${name}`).addEventListener("click", () => select(name, true));
    $(`tab-${name}`).addEventListener("keydown", (e) => {
      if (!["ArrowLeft", "ArrowRight"].includes(e.key)) return;
      const next = tabs[(tabs.indexOf(name) + 1) % tabs.length];
      select(next, true);
      $(`tab-${next}`).focus();
    });
  }
  return select;
}

async function main() {
  $("asked-fold").open = matchMedia("(min-width: 821px)").matches;
  await read();
  const select = views();
  select(state.view === "verify" ? "verify" : "plan", false);
  const figures = cards();
  const fill = report.wire(() => write(false));
  show = (answer) => {
    $("cards").hidden = false;
    fill(answer);
    showOthers();
    for (const [name, heading] of Object.entries(headings)) {
      $(`card-${name}`).hidden = !answer[name] && answer.report.error !== null; // the refusal says why
      figures[name](answer[name], heading);
    }
    say(answer.report.error?.message ?? answer.report.log[0] ?? answer.digest.title);
  };
  form.wire(changed, (why) => report.showProblem({ message: why }), verify.take);
  form.show();
  verify.wire();
  addEventListener("popstate", async () => {
    await read();
    select(state.view === "verify" ? "verify" : "plan", false);
    form.show();
    changed(false);
  });
  const first = changed(false);
  const [models, accelerators] = await Promise.all([api.models(), api.accelerators()]);
  compare.append(...models.filter((m) => m.short.length).map((m) => h("option", { value: m.short[0], text: m.short[0] })));
  form.offer(models, accelerators, changed);
  await first;
}

main();
