// What is asked, and how it is written in the page's address.
//
//   ?model=deepseek-v3&engine=sglang&gpu=h200&tp=8&dcp=8&with=llama-3-70b~tp=8&open=kv_pool
//
// A config.json that was dropped travels after the #, where no server sees it.

const defaults = {
  view: "plan", model: "llama-3-70b", engine: "vllm", gpu: "h100-sxm-80gb",
  tp: "8", pp: "1", dp: "1", dcp: "1", ep: "", dpa: "", kv: "", len: "", pool: "",
};
const pinned = ["engine", "gpu", "pp", "dp", "dcp", "ep", "dpa", "kv", "len", "pool"]; // what a line of a comparison may hold fast

export const maxOthers = 3;

// state is the one copy. config is the text of a dropped file, null without one.
export const state = { ...defaults, config: null, configName: "", with: [], open: new Set() };

// read takes the state from the address.
export async function read() {
  const query = new URLSearchParams(location.search);
  for (const key of Object.keys(defaults)) state[key] = query.get(key) ?? defaults[key];
  state.with = query.getAll("with").filter(Boolean).slice(0, maxOthers);
  state.open = new Set(query.getAll("open"));
  const hash = new URLSearchParams(location.hash.slice(1));
  state.configName = hash.get("name") ?? "config.json";
  state.config = hash.has("config") ? await unpack(hash.get("config")) : null;
}

// write puts the state into the address: a step of the history when keep is set.
export async function write(keep) {
  const query = new URLSearchParams();
  for (const key of Object.keys(defaults)) {
    const skip = key === "model" ? state.config !== null : state[key] === defaults[key];
    if (!skip) query.set(key, state[key]);
  }
  for (const other of state.with) query.append("with", other);
  for (const id of state.open) query.append("open", id);
  let address = location.pathname + "?" + query;
  if (state.config !== null) {
    address += "#" + new URLSearchParams({ name: state.configName, config: await pack(state.config) });
  }
  if (address === location.pathname + location.search + location.hash) return;
  history[keep ? "pushState" : "replaceState"](null, "", address);
}

// body is the question as the API takes it: the one that leads, then the lines beside it.
export function body(lines) {
  return `{"requests":[${[state, ...lines.map(other)].map(request).join(",")}]}`;
}

// other is a line of the comparison: a model and what it holds fast, the rest as asked now.
export function other(text) {
  const [model, ...held] = text.split("~");
  const line = { ...state, model, config: null };
  for (const pair of held) {
    const [key, value] = pair.split("=");
    if (pinned.includes(key)) line[key] = value ?? "";
  }
  return line;
}

// keep is the line that holds fast all that is asked now.
export function keep() {
  const held = pinned.filter((key) => state[key] !== defaults[key] || key === "engine" || key === "gpu");
  return [state.model, ...held.map((key) => `${key}=${state[key]}`)].join("~");
}

// request is one Request as JSON text. The config goes in as it stands in the file.
function request(s) {
  const req = {
    engine: s.engine, gpu: s.gpu || undefined,
    tensor_parallel_size: size(s.tp), pipeline_parallel_size: size(s.pp), data_parallel_size: size(s.dp), decode_context_parallel_size: size(s.dcp),
    enable_expert_parallel: s.ep === "1" || undefined, enable_dp_attention: s.dpa === "1" || undefined,
    kv_cache_dtype: s.kv || undefined, max_model_len: tokens(s.len),
    kv_cache_memory_bytes: scaled(s.pool, 2 ** 30),
  };
  if (s.config === null) return JSON.stringify({ model: s.model, ...req });
  return JSON.stringify(req).replace(/^{/, `{"config":${s.config},`);
}

const size = (text) => scaled(text, 1);

// tokens reads a length as the command line does: 8192, 8k, 1m, auto.
function tokens(text) {
  const t = text.trim().toLowerCase();
  if (t === "auto") return -1;
  const unit = { k: 2 ** 10, m: 2 ** 20 }[t.at(-1)];
  return unit ? scaled(t.slice(0, -1), unit) : scaled(t, 1);
}

// scaled is a number of units, or the text itself where it is none: the server says what is
// wrong with it.
function scaled(text, unit) {
  const t = text.trim();
  if (t === "") return undefined;
  const n = Number(t);
  return Number.isFinite(n) ? Math.round(n * unit) : t;
}

async function pack(text) {
  const bytes = await through(new Blob([text]), new CompressionStream("deflate-raw"));
  let binary = "";
  for (const b of bytes) binary += String.fromCharCode(b);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

async function unpack(text) {
  try {
    const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(binary, (c) => c.charCodeAt(0));
    return new TextDecoder().decode(await through(new Blob([bytes]), new DecompressionStream("deflate-raw")));
  } catch {
    return null; // an address that was cut short
  }
}

async function through(blob, stream) {
  return new Uint8Array(await new Response(blob.stream().pipeThrough(stream)).arrayBuffer());
}
