// The report: the engine's line, the notes, the numbers, and the way from the config to them.

import { $, h } from "./dom.js";
import { state } from "./state.js";
import { copies, copier } from "./figure.js";

// wire builds what show fills; changed is called when a number is opened or closed.
export function wire(changed) {
  const numbers = $("card-numbers");
  const body = h("tbody");
  let rows = [];
  const table = () => ({ columns: ["", "per rank", "whole model", "how"], rows: rows.map((r) => [r.name, r.per_rank, r.whole_model, r.how]) });
  numbers.append(
    h("header", {}, h("h3", { id: "h-numbers", text: "The numbers" }), copies("numbers", table)),
    h("table", { class: "numbers" }, h("thead", {}, h("tr", {}, h("td"), h("th", { scope: "col", class: "num", text: "per rank" }), h("th", { scope: "col", class: "num", text: "whole model" }), h("th", { scope: "col", class: "how", text: "how" }))), body));

  const steps = $("card-steps");
  const walk = h("ol", { class: "steps" });
  const details = h("details", { open: state.open.has("steps") }, h("summary", {}, h("h3", { id: "h-steps", text: "From config.json to the log line, step by step" })), walk);
  details.addEventListener("toggle", () => toggle("steps", details.open, changed));
  steps.append(details);

  return (f) => {
    rows = f.digest.rows;
    const byID = new Map(f.steps.map((s) => [s.id, s]));
    title(f);
    showProblem(f.report.error);
    showLog(f, byID, changed);
    showNotes(f.report.notes);
    body.replaceChildren(...rows.flatMap((r) => row(r, byID, changed)));
    numbers.hidden = rows.length === 0;
    details.open = state.open.has("steps");
    walk.replaceChildren(...f.steps.map((s) => h("li", {}, h("h4", { text: s.title }), text(s.lines))));
    steps.hidden = f.steps.length === 0;
  };
}

// text is lines of which each hangs from its first word.
const text = (lines) => h("pre", {}, lines.map((line) => h("span", { class: "line", text: line })));

function toggle(id, open, changed) {
  if (state.open.has(id) === open) return;
  if (open) state.open.add(id);
  else state.open.delete(id);
  changed();
}

function title(f) {
  $("title").textContent = f.digest.title;
  $("setup").textContent = f.digest.setup;
  document.title = [state.config === null ? state.model : state.configName, `TP ${state.tp}`, "headcount"].join(" · ");
}

// row is a number and, beneath it, how it came about.
function row(r, byID, changed) {
  const step = byID.get(r.step);
  const id = `why-${r.id}`;
  const open = state.open.has(r.id);
  const why = h("tr", { class: "why", id, hidden: !open }, h("td", { colspan: 4 }, step && explained(step, byID)));
  const number = step
    ? h("button", { type: "button", class: "figure", "aria-expanded": String(open), "aria-controls": id, "aria-label": `${r.name}, per rank: ${r.per_rank}. How`, text: r.per_rank, onclick: (e) => {
      why.hidden = !why.hidden;
      e.currentTarget.setAttribute("aria-expanded", String(!why.hidden));
      toggle(r.id, !why.hidden, changed);
    } })
    : r.per_rank;
  return [h("tr", { class: r.part && "part" }, h("th", { scope: "row", text: r.name }), h("td", { class: "num" }, number), h("td", { class: "num whole", text: r.whole_model }), h("td", { class: "how", text: r.how })), step && why].filter(Boolean);
}

// explained is a step, and the fields of config.json that its numbers hang on.
function explained(step, byID) {
  const fields = byID.get("fields");
  return h("div", { class: "explained" }, h("h4", { text: step.title }), text(step.lines),
    fields && step !== fields && [h("h4", { text: fields.title }), text(fields.lines)]);
}

export function showProblem(error) {
  const box = $("problem");
  box.hidden = !error;
  if (!error) return;
  const who = { vllm: "vLLM refuses this", sglang: "SGLang refuses this" }[error.refused_by] ?? "This cannot be planned";
  box.replaceChildren(h("strong", { text: who }), h("p", { text: error.message }), error.hint && h("p", { class: "hint", text: error.hint }));
}

// showLog prints the engine's lines as it will.
function showLog(f, byID, changed) {
  const box = $("log");
  const lines = f.report.log;
  box.hidden = lines.length === 0;
  const open = state.open.has("log");
  const why = h("div", { id: "why-log", hidden: !open }, ["unit", "blocks", "tokens"].map((id) => byID.get(id)).filter(Boolean).map((s) => h("div", { class: "explained" }, h("h4", { text: s.title }), text(s.lines))));
  const how = h("button", { type: "button", class: "link", "aria-expanded": String(open), "aria-controls": "why-log", text: "How it comes about", onclick: () => {
    why.hidden = !why.hidden;
    how.setAttribute("aria-expanded", String(!why.hidden));
    toggle("log", !why.hidden, changed);
  } });
  box.replaceChildren(
    h("header", {}, h("h3", { text: f.digest.headline }), h("div", { class: "tools" }, how, copier("Copy the log lines", () => lines.join("\n")))),
    h("pre", { text: lines.join("\n") }), why);
}

// showNotes leaves out what the row of the weights says already.
function showNotes(all) {
  const notes = all.filter((n) => n.id !== "weights-not-known");
  const box = $("notes");
  box.hidden = notes.length === 0;
  box.replaceChildren(...notes.map((n) => h("p", { class: n.severity }, h("span", { text: n.text }), n.hint && h("span", { class: "hint", text: n.hint }))));
}
