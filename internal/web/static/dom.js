// Elements, made and found.

export const $ = (id) => document.getElementById(id);

// h makes an element. Props are attributes, but for on… (listeners) and text; children are
// nodes or strings, and what is null or false is left out.
export function h(tag, props = {}, ...children) {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) el.addEventListener(name.slice(2), value);
    else if (name === "text") el.textContent = value;
    else el.setAttribute(name, value === true ? "" : value);
  }
  el.append(...children.flat().filter((c) => c != null && c !== false));
  return el;
}

// say tells those who do not see the page what has changed.
export function say(text) {
  $("status").textContent = text;
}

// later runs f once, when no call has come for a while.
export function later(ms, f) {
  let timer;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(f, ms, ...args);
  };
}
