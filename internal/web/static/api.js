// The server's answers.

// A Problem is what the server, or the way to it, has against a question.
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail ?? body.title ?? "the server does not answer");
    this.status = status;
    this.hint = body.hint ?? "";
  }
}

async function ask(path, init) {
  let response;
  try {
    response = await fetch(path, init);
  } catch (err) {
    if (err.name === "AbortError") throw err;
    throw new Problem(0, { hint: "is headcount serve still running?" });
  }
  const body = await response.json().catch(() => ({ title: `the server answered ${response.status}` }));
  if (!response.ok) throw new Problem(response.status, body);
  return body;
}

const post = (path, body, signal) => ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body, signal });

export const models = async () => (await ask("/v1/models")).models;
export const accelerators = async () => (await ask("/v1/accelerators")).accelerators;
export const figures = (body, signal) => post("/v1/figures", body, signal);
export const verify = (body) => post("/v1/verify", body);
