// The tab that compares a running engine's log with the plan.

import { $, h } from "./dom.js";
import { verify } from "./api.js";
import { copies } from "./figure.js";

export function wire() {
  $("open-log").addEventListener("click", () => $("log-file").click());
  $("log-file").addEventListener("change", async (e) => {
    const [file] = e.target.files;
    if (file) $("log-text").value = await file.text();
    e.target.value = "";
  });
  $("verify-form").addEventListener("submit", async (e) => {
    e.preventDefault();
    const text = $("log-text").value;
    if (!text.trim()) return say("There is no log in the box yet.");
    try {
      show(await verify(text));
    } catch (problem) {
      say(problem.status === 404 ? "This server does not compare logs yet. In a terminal: headcount verify FILE" : problem.message, problem.status === 404 ? "" : problem.hint);
    }
  });
}

const say = (text, hint) => $("verified").replaceChildren(h("p", { class: "none", text }), hint ? h("p", { class: "hint muted", text: hint }) : "");

function show(v) {
  const differs = v.checks.filter((c) => c.difference !== 0);
  const headline = v.refusal ? "The engine did not start" : v.checks.length === 0 ? "The log holds nothing to compare" : differs.length === 0 ? "All checks agree" : `${differs.length} of ${v.checks.length} checks differ`;
  const columns = ["check", "predicted", "logged", "difference", "cause"];
  const rows = v.checks.map((c) => [c.name, c.predicted, c.observed, c.difference, c.cause ?? ""]);
  const cell = (x) => h("td", typeof x === "number" ? { class: "num", text: x.toLocaleString("en-US") } : { text: x });
  $("verified").replaceChildren(
    h("header", {}, h("h2", { text: headline }), rows.length > 0 && copies("verify", () => ({ columns, rows }))),
    h("p", { class: "muted", text: [v.engine && `${v.engine.name} ${v.engine.version}`, v.observed?.model].filter(Boolean).join(" · ") }),
    v.refusal ? h("p", { class: "problem", text: v.refusal.message }) : "",
    rows.length ? h("table", {}, h("thead", {}, h("tr", {}, columns.map((c) => h("th", { scope: "col", text: c })))),
      h("tbody", {}, v.checks.map((c, i) => h("tr", { class: c.difference ? "differs" : "agrees" }, rows[i].map(cell))))) : "",
    v.advice?.length ? h("ul", {}, v.advice.map((a) => h("li", {}, h("code", { text: `${a.flag} ${a.value}` }), ` ${a.why}`))) : "");
}
