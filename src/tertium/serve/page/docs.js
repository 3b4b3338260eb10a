// openapi.json as a page: paths, fields, and a command to try each.

import { find, make } from "./dom.js";

const EXAMPLES = {
  "/v1/embeddings": { input: ["A cat sleeps.", "A kitten is napping."] },
  "/v1/similarity": { pairs: [["A cat sleeps.", "A kitten is napping."]] },
  "/v1/conditional": { triples: [["A cat sleeps.", "A dog sleeps.", "the animal"]] },
  "/v1/explain": { a: "A cat sleeps.", b: "A kitten is napping." },
  "/v1/search": { query: "A kitten is napping.", top_k: 3 },
  "/v1/rerank": { query: "A cat sleeps.", documents: ["Stocks fell sharply.", "A kitten is napping."] },
};

const kind = (schema) => schema.$ref?.split("/").pop() ?? schema.const ?? schema.enum?.join(" | ") ??
  (schema.anyOf ? schema.anyOf.map(kind).join(" | ") : schema.prefixItems ? `[${schema.prefixItems.map(kind).join(", ")}]`
    : schema.type === "array" ? `${kind(schema.items ?? {})}[]` : schema.type ?? "any");

function fields(schema, caption) {
  const needed = new Set(schema.required ?? []);
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, make("table", { class: "list" },
    make("thead", {}, make("tr", {}, ...["field", "type", "required", "meaning"].map((name) => make("th", {}, name)))),
    make("tbody", {}, ...Object.entries(schema.properties ?? {}).map(([name, field]) => make("tr", {},
      make("td", {}, make("code", {}, name)), make("td", {}, make("code", {}, kind(field))),
      make("td", { class: "hint" }, needed.has(name) ? "yes" : ""), make("td", { class: "hint" }, field.description ?? ""))))));
}

function card(document, path, method, operation) {
  const asked = operation.requestBody?.content["application/json"].schema;
  const answer = operation.responses["200"]?.content?.["application/json"]?.schema;
  const answered = answer?.$ref ? document.components.schemas[answer.$ref.split("/").pop()] : answer;
  const command = asked
    ? `curl ${location.origin}${path} -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(EXAMPLES[path])}'`
    : `curl ${location.origin}${path}`;
  return make("section", { class: "card" },
    make("h2", {}, make("span", { class: "method" }, method.toUpperCase()), make("code", {}, path)),
    make("p", {}, operation.description ?? operation.summary ?? ""),
    asked ? fields(asked, `Fields of a request to ${path}`) : null,
    make("pre", { tabindex: "0" }, command),
    answered?.properties ? make("details", {}, make("summary", {}, "Answer"), fields(answered, `Fields of an answer of ${path}`)) : null,
    make("details", {}, make("summary", {}, "Other answers"), make("ul", {}, ...Object.entries(operation.responses)
      .filter(([status]) => status !== "200").map(([status, told]) => make("li", {}, `${status}: ${told.description}`)))));
}

try {
  const told = await (await fetch("/openapi.json")).json();
  find("paths").replaceChildren(...Object.entries(told.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => card(told, path, method, operation))));
} catch {
  find("paths").replaceChildren(make("p", { class: "error", role: "alert" }, "The server does not answer. Is it still running?"));
}
