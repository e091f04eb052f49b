// A card: a title, a chart, its legend, and the numbers behind it as a table.

import { h, say } from "./dom.js";
import { state } from "./state.js";
import { csv, tsv, download, saveSVG, savePNG } from "./save.js";

const sized = new ResizeObserver((entries) => entries.forEach((e) => e.target.resized(Math.floor(e.contentRect.width))));
const seen = new IntersectionObserver((entries) => entries.forEach((e) => e.target.seen(e.isIntersecting)));

// What is out of sight is drawn when the browser has nothing better to do, a chart at a time.
const idle = globalThis.requestIdleCallback ? (f) => requestIdleCallback(f, { timeout: 200 }) : (f) => setTimeout(f, 30);
const waiting = new Set();
function drawLater(draw) {
  if (waiting.size === 0) idle(drawNext);
  waiting.add(draw);
}
function drawNext() {
  const [draw] = waiting;
  draw?.();
  if (waiting.size > 0) idle(drawNext);
}
addEventListener("beforeprint", () => [...waiting].forEach((draw) => draw()));

// figure fills a section and returns show(data, heading); without data it says why there is none.
//   none                why there is nothing, when data is null
//   chart(data, width)  the SVG
//   label(data)         what it shows, for those who do not see it
//   legend(data)        nodes beneath it, or nothing
//   controls            an element beneath that, which stays
//   table(data)         {columns, rows}
export function figure(section, { name, none, chart, label, legend, controls, table, opened }) {
  let data = null;
  let inSight = false;
  let width = 0; // as last observed: to ask for it amid changes would lay the page out each time
  const title = h("h3", { id: `h-${name}` });
  const plot = h("div", { class: "plot" });
  const under = h("div", { class: "legend" });
  const file = (ext) => `headcount-${name}.${ext}`;
  const svg = () => {
    if (waiting.has(draw)) draw();
    return plot.querySelector("svg");
  };
  const saves = h("div", { class: "tools" },
    h("button", { type: "button", class: "tool", "aria-label": `Save as SVG: ${name}`, text: "SVG", onclick: () => saveSVG(file("svg"), svg()) }),
    h("button", { type: "button", class: "tool", "aria-label": `Save as PNG: ${name}`, text: "PNG", onclick: () => savePNG(file("png"), svg()) }));
  const numbers = tableOf(name, () => data && table(data), opened);
  section.append(...[h("header", {}, title, saves), plot, under, controls, numbers.element].filter(Boolean));

  const draw = () => {
    waiting.delete(draw);
    plot.removeAttribute("aria-busy");
    if (!data || width === 0) return;
    const picture = chart(data, width);
    for (const part of picture.querySelectorAll("[aria-label]")) part.removeAttribute("aria-label"); // names of marks, "dot"
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", label(data));
    plot.replaceChildren(picture);
  };
  const changed = () => {
    if (inSight) return draw();
    plot.setAttribute("aria-busy", "true");
    drawLater(draw);
  };
  plot.resized = (now) => {
    if (now === width) return;
    width = now;
    changed();
  };
  plot.seen = (now) => {
    inSight = now;
    if (now && waiting.has(draw)) draw();
  };
  sized.observe(plot);
  seen.observe(plot);

  return (next, heading) => {
    data = next;
    saves.hidden = numbers.element.hidden = !data;
    title.textContent = data?.title ?? heading;
    if (!data) {
      draw();
      plot.replaceChildren(h("p", { class: "none muted", text: none }));
      under.replaceChildren();
      return;
    }
    changed();
    under.replaceChildren(...(legend?.(data) ?? []));
    numbers.fill();
  };
}

// tableOf is a table that opens, and is filled only while it is open.
function tableOf(name, table, opened) {
  const id = `table-${name}`;
  const body = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Table: ${name}` });
  const element = h("details", { class: "data", open: state.open.has(id) }, h("summary", { text: "Table" }), copies(name, table), body);
  const fill = () => {
    const t = element.open && table();
    if (t) body.replaceChildren(grid(t));
  };
  element.addEventListener("toggle", () => {
    fill();
    opened?.(id, element.open);
  });
  return { element, fill };
}

// copies are the ways to take a table along.
export function copies(name, table) {
  return h("div", { class: "tools" }, copier(`Copy the table: ${name}`, () => tsv(table())),
    h("button", { type: "button", class: "tool", "aria-label": `Save as CSV: ${name}`, text: "CSV", onclick: () => download(`headcount-${name}.csv`, new Blob([csv(table())], { type: "text/csv" })) }));
}

// copier is a button that copies a text; nothing where the browser has no clipboard for the
// page, as it has none for plain HTTP from another machine.
export function copier(label, text) {
  return navigator.clipboard && h("button", { type: "button", class: "tool", "aria-label": label, text: "Copy", onclick: async ({ target }) => {
    await navigator.clipboard.writeText(text());
    say("Copied");
    target.textContent = "Copied";
    setTimeout(() => { target.textContent = "Copy"; }, 1200);
  } });
}

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 3 });

function grid({ columns, rows }) {
  const cell = (v) => (typeof v === "number" ? h("td", { class: "num", text: grouped.format(v) }) : h("td", { text: v ?? "" }));
  return h("table", {}, h("thead", {}, h("tr", {}, columns.map((c) => h("th", { scope: "col", text: c })))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map(cell)))));
}
