// The tab that sets a plan beside what a running engine printed.

import { $, h } from "./dom.js";
import * as api from "./api.js";
import { copies } from "./figure.js";

// A config.json in place of the model that the log names; null without one.
let config = null;

export function wire() {
  $("open-log").addEventListener("click", () => $("log-file").click());
  $("log-file").addEventListener("change", async (e) => {
    if (e.target.files[0]) await take(e.target.files[0]);
    e.target.value = "";
  });
  $("log-model").addEventListener("input", () => { config = null; });
  $("verify-form").addEventListener("submit", (e) => {
    e.preventDefault();
    compare();
  });
}

// take takes a file: a config.json for the model, any other as the log.
export async function take(file) {
  const text = await file.text();
  if (!file.name.endsWith(".json")) {
    $("log-text").value = text;
    return;
  }
  config = text;
  $("log-model").value = file.name;
}

async function compare() {
  const log = $("log-text").value;
  const model = $("log-model").value.trim();
  if (!log.trim()) return say("There is no log in the box yet.");
  const request = config !== null ? `{"config":${config}}` : JSON.stringify({ model });
  try {
    const { starts } = await api.verify(`{"log":${JSON.stringify(log)},"request":${request}}`);
    $("verified").replaceChildren(...starts.map(start));
  } catch (err) {
    if (!(err instanceof api.Problem)) throw err;
    if (err.status === 404) say("This server does not compare logs. In a terminal: headcount verify FILE");
    else say(err.message, err.hint);
  }
}

const say = (text, hint) => $("verified").replaceChildren(h("div", { class: "problem" }, h("p", { text }), hint && h("p", { class: "hint", text: hint })));

const shown = (v) => (typeof v === "number" ? v.toLocaleString("en-US", { maximumFractionDigits: 2 }) : v ?? "not known");
const engines = { vllm: "vLLM", sglang: "SGLang", "tensorrt-llm": "TensorRT-LLM" };
const words = (name) => name.replaceAll("_", " ");

// difference of an estimate is a share, of what is exact a number.
const difference = (c) => (c.predicted == null || c.difference === 0 ? "" : c.estimate ? c.difference.toLocaleString("en-US", { style: "percent", maximumFractionDigits: 1, signDisplay: "always" }) : shown(c.difference));

// start is one start of an engine in the log.
function start(v, i) {
  const columns = ["", "predicted", "printed", "difference", "", "how"];
  const rows = v.checks.map((c) => [words(c.name), c.predicted, c.observed, difference(c), c.agrees ? "agrees" : "differs", c.cause ?? c.how]);
  const differs = v.checks.filter((c) => !c.agrees).length;
  const ended = v.refusal ?? v.fell;
  return h("section", { class: "card" },
    h("header", {}, h("h2", { text: headline(v, differs) }), rows.length > 0 && copies(`verify-${i + 1}`, () => ({ columns, rows }))),
    h("p", { class: "muted", text: [`${engines[v.engine.name] ?? v.engine.name} ${v.engine.version}`.trim(), v.model].filter(Boolean).join(" · ") }),
    ended && h("div", { class: "problem" }, h("p", { text: ended.message })),
    rows.length > 0 && h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Checks" }, h("table", {},
      h("thead", {}, h("tr", {}, columns.map((text, at) => h(text ? "th" : "td", text ? { scope: "col", class: at < 4 && "num", text } : {})))),
      h("tbody", {}, rows.map(([name, predicted, printed, diff, verdict, how]) => h("tr", { class: verdict },
        h("th", { scope: "row", text: name }), h("td", { class: "num", text: shown(predicted) }), h("td", { class: "num", text: shown(printed) }),
        h("td", { class: "num", text: diff }), h("td", { class: "verdict", text: verdict }), h("td", { class: "muted", text: how })))))),
    v.advice.length > 0 && [h("h3", { text: "What to change" }), h("ul", { class: "advice" }, v.advice.map((a) => h("li", {}, h("code", { text: `${a.flag} ${a.value}` }), h("span", { text: [a.tokens != null && `${shown(a.tokens)} tokens`, a.why].filter(Boolean).join(": ") }))))],
  );
}

function headline(v, differs) {
  if (v.refusal) return "The engine did not start";
  if (v.checks.length === 0) return "The log holds nothing to compare";
  return differs === 0 ? "All agree" : `${differs} of ${v.checks.length} differ`;
}
