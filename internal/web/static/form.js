// The form: the state as controls.

import { $, h, later } from "./dom.js";
import { state } from "./state.js";
import { picker } from "./picker.js";

const typed = { "tp-other": "tp", pp: "pp", dp: "dp", dcp: "dcp", len: "len", pool: "pool" };
const chosen = { gpu: "gpu", kv: "kv" };
const ticked = { ep: "ep", dpa: "dpa" };
const maxConfig = 4 << 20;

// wire makes controls change the state; changed is called after each change, failed with
// the reason why a file cannot be taken, takeLog with a file for the other tab.
export function wire(changed, failed, takeLog) {
  const set = (key, value) => {
    if (state[key] === value) return;
    state[key] = value;
    show();
    changed();
  };
  for (const [id, key] of Object.entries(typed)) {
    const soon = later(150, set);
    $(id).addEventListener("input", (e) => soon(key, e.target.value.trim()));
  }
  for (const [id, key] of Object.entries(chosen)) $(id).addEventListener("change", (e) => set(key, e.target.value));
  for (const [id, key] of Object.entries(ticked)) $(id).addEventListener("change", (e) => set(key, e.target.checked ? "1" : ""));
  for (const name of ["engine", "tp"]) $(name).addEventListener("change", (e) => set(name, e.target.value));
  $("question").addEventListener("submit", (e) => e.preventDefault());

  const take = async (file) => {
    if (!file) return;
    if (file.size > maxConfig) return failed(`${file.name}: larger than 4 MiB`);
    const text = await file.text();
    try {
      JSON.parse(text);
    } catch (err) {
      return failed(`${file.name}: not JSON: ${err.message}`);
    }
    Object.assign(state, { config: text, configName: file.name });
    show();
    changed();
  };
  $("open-config").addEventListener("click", () => $("config-file").click());
  $("config-file").addEventListener("change", (e) => take(e.target.files[0]).then(() => { e.target.value = ""; }));
  dropping((file) => (state.view === "verify" ? takeLog(file) : take(file)));
}

// dropping takes a file that is dropped anywhere on the page.
function dropping(take) {
  const holds = (e) => e.dataTransfer?.types.includes("Files");
  addEventListener("dragover", (e) => { if (holds(e)) { e.preventDefault(); $("drop").hidden = false; } });
  addEventListener("dragleave", (e) => { if (!e.relatedTarget) $("drop").hidden = true; });
  addEventListener("drop", (e) => {
    if (!holds(e)) return;
    e.preventDefault();
    $("drop").hidden = true;
    take(e.dataTransfer.files[0]);
  });
}

// offer fills the lists that the server knows.
export function offer(models, accelerators, changed) {
  picker($("model"), $("models"), models, (name) => {
    Object.assign(state, { model: name, config: null });
    show();
    changed();
  });
  $("gpu").replaceChildren($("gpu").options[0], ...accelerators.map((g) => h("option", { value: g.id, text: g.name })));
  choose($("gpu"), state.gpu);
  summary();
}

// show puts the state into the controls.
export function show() {
  $("model").value = state.config === null ? state.model : state.configName;
  for (const [id, key] of Object.entries(typed)) {
    if (document.activeElement !== $(id) || $(id).value.trim() !== state[key]) $(id).value = state[key];
  }
  for (const [id, key] of Object.entries(chosen)) choose($(id), state[key]);
  for (const [id, key] of Object.entries(ticked)) $(id).checked = state[key] === "1";
  for (const name of ["engine", "tp"]) {
    for (const radio of $(name).querySelectorAll("input")) radio.checked = radio.value === state[name].split("@")[0];
  }
  summary();
}

// summary is the question in a line, for when the form is folded away.
function summary() {
  const engine = state.engine.startsWith("sglang") ? "SGLang" : "vLLM";
  $("asked").textContent = [$("model").value, engine, $("gpu").value && $("gpu").selectedOptions[0].text, `TP ${state.tp}`].filter(Boolean).join(" · ");
}

// choose selects a value, or the first that it begins ("h100"); one that is not in the list
// joins it, so that the server says what is wrong.
function choose(select, value) {
  const options = [...select.options];
  const found = options.find((o) => o.value === value) ?? (value && options.find((o) => o.value.startsWith(value)));
  if (!found) select.append(h("option", { value, text: value }));
  select.value = found ? found.value : value;
}
