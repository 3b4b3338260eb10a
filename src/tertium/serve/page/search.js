// The index that the server holds.

import { call } from "./api.js";
import { during, empty, find, make, round, say } from "./dom.js";

export function meet({ texts }) {
  find("search-form").hidden = texts === null;
  if (texts !== null) return [make("p", { class: "empty" }, `${texts.toLocaleString("en")} texts are waiting.`)];
  return [make("div", { class: "empty" },
    make("p", {}, "This server has nothing to search."),
    make("p", {}, "Build an index with ", make("code", {}, "tertium index build FILE -o DIR"), " and start the server with ", make("code", {}, "--index DIR"), "."))];
}

export const read = () => ({ q: find("query").value });

export function write({ q = "" }) {
  find("query").value = q;
}

export const filled = () => Boolean(find("query").value.trim()) && !find("search-form").hidden;

export function run() {
  const query = find("query").value.trim();
  const place = find("search-result");
  if (!query) {
    empty(place, "Write what you are looking for.");
    find("query").focus();
    return;
  }
  during(place, async (signal) => {
    const found = await call("/v1/search", { query, k: Number(find("hits").value) }, signal);
    const hits = found.results[0];
    say(`${hits.length} texts found.`);
    if (!hits.length) return [make("p", { class: "empty" }, "Nothing was found.")];
    return [make("ol", { class: "plain hits card", id: "hits-list" }, ...hits.map((hit) => make("li", {},
      make("span", { class: "number-tag", title: "cosine" }, round(hit.score)), " ", hit.text, " ", make("span", { class: "hint" }, hit.id))))];
  }, { form: find("search-form") });
}
