// A box to search the catalogue: ARIA's combobox with a list.

import { h, say } from "./dom.js";

const shown = 60; // matches listed at once

// picker makes input and list choose among models; chosen is called with a name.
export function picker(input, list, models, chosen) {
  let matches = [];
  let at = -1;
  const entries = models.map((m) => ({ ...m, name: shortest(m), text: [m.id, ...m.short].join(" ").toLowerCase() }));

  const close = () => {
    list.hidden = true;
    at = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };

  const pick = (entry) => {
    input.value = entry.name;
    close();
    chosen(entry.name);
  };

  const mark = (i) => {
    list.children[at]?.setAttribute("aria-selected", "false");
    at = i;
    const option = list.children[at];
    if (!option) return input.removeAttribute("aria-activedescendant");
    option.setAttribute("aria-selected", "true");
    option.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", option.id);
  };

  const open = (text) => {
    matches = search(entries, text);
    list.replaceChildren(...matches.slice(0, shown).map((m, i) =>
      h("li", { role: "option", id: `${list.id}-${i}`, "aria-selected": "false", onmousedown: (e) => { e.preventDefault(); pick(m); } },
        h("span", { class: "name", text: m.name }), h("span", { class: "muted id", text: m.id }), h("span", { class: "muted variant", text: m.variant === "-" ? "" : m.variant }))));
    list.hidden = matches.length === 0;
    input.setAttribute("aria-expanded", String(!list.hidden));
    mark(-1);
    say(matches.length === 1 ? "1 model" : `${matches.length} models`);
  };

  input.addEventListener("input", () => open(input.value));
  input.addEventListener("focus", () => setTimeout(() => input.select())); // after the browser has put the caret
  input.addEventListener("click", () => list.hidden && open(""));
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (e) => {
    const last = list.children.length - 1;
    switch (e.key) {
      case "ArrowDown":
        if (list.hidden) open("");
        mark(at < last ? at + 1 : 0);
        break;
      case "ArrowUp":
        if (list.hidden) open("");
        mark(at > 0 ? at - 1 : last);
        break;
      case "Enter": {
        if (!list.hidden && (at >= 0 || matches.length > 0)) pick(matches[Math.max(at, 0)]);
        else if (input.value.trim()) chosen(input.value.trim());
        break;
      }
      case "Escape":
        if (list.hidden) return;
        close();
        break;
      default:
        return;
    }
    e.preventDefault();
  });
}

const shortest = (m) => m.short.reduce((a, b) => (b.length < a.length ? b : a), m.short[0] ?? m.id);

// search keeps the entries that hold every word, those whose name begins with the text first.
function search(entries, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = entries.filter((m) => words.every((w) => m.text.includes(w)));
  const rank = (m) => (words.length && m.name.startsWith(words[0]) ? 0 : 1);
  return found.sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
}
