// The server, asked with JSON. A key lives in this variable and nowhere else.

import { find } from "./dom.js";

let key = null;

export async function call(path, body = null, signal = null) {
  const headers = { ...(body === null ? {} : { "content-type": "application/json" }), ...(key ? { authorization: `Bearer ${key}` } : {}) };
  let answer;
  try {
    answer = await fetch(path, { method: body === null ? "GET" : "POST", headers, body: body === null ? null : JSON.stringify(body), signal });
  } catch {
    throw new Error("The server does not answer. Is it still running?");
  }
  if (answer.ok) return answer.json();
  const told = await answer.json().catch(() => null);
  const error = new Error(told?.error?.message ?? `The server answered with ${answer.status}.`);
  error.status = answer.status;
  if (answer.status === 401) askForKey();
  throw error;
}

function askForKey() {
  find("key-form").hidden = false;
  find("key").focus();
}

export function onKey(then) {
  find("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    key = find("key").value.trim();
    find("key").value = "";
    find("key-form").hidden = true;
    then();
  });
}

// Vectors of texts, in requests that are not too large.
export async function embed(texts, model, signal) {
  const vectors = [];
  for (let start = 0; start < texts.length; start += 64) {
    const found = await call("/v1/embeddings", { input: texts.slice(start, start + 64), model }, signal);
    vectors.push(...found.data.map((each) => each.embedding));
  }
  return vectors;
}
