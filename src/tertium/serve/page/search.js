// The index that the server holds.

import { call } from "./api.js";
import { reason, verdict } from "./decision.js";
import { during, empty, find, make, round, say } from "./dom.js";

let conditional = null;

export function meet({ texts, columns, conditional: model }) {
  conditional = model;
  find("search-form").hidden = texts === null;
  find("filters").hidden = !columns?.length;
  find("columns").textContent = columns?.length ? `Columns: ${columns.join(", ")}` : "";
  find("search-condition").hidden = model === null;
  if (texts !== null) return [make("p", { class: "empty" }, `${texts.toLocaleString("en")} texts are waiting.`)];
  return [make("div", { class: "empty" },
    make("p", {}, "This server has nothing to search."),
    make("p", {}, "Build an index with ", make("code", {}, "tertium index build FILE -o DIR"), " and start the server with ", make("code", {}, "--index DIR"), "."))];
}

export const read = () => ({ q: find("query").value, where: find("where").value, hybrid: find("hybrid").checked ? "1" : "", on: [find("search-on").value] });

export function write({ q = "", where = "", hybrid = "", on = [] }) {
  find("query").value = q;
  find("where").value = where;
  find("hybrid").checked = hybrid === "1";
  find("search-on").value = on[0] ?? "";
}

export const filled = () => Boolean(find("query").value.trim()) && !find("search-form").hidden;

// A hit: its score, the passage or text with its columns, what a fitted threshold says of it, and the whole of a long text folded.
function shown(hit, decision) {
  const columns = Object.entries(hit.columns).map(([name, value]) => `${name}: ${value}`).join(" · ");
  return make("li", {},
    make("span", { class: "number-tag", title: `cosine ${round(hit.cosine, 3)}` }, round(hit.score, hit.score < 0.1 ? 3 : 2)), " ",
    hit.passage === null ? hit.text : `… ${hit.passage} …`, " ", make("span", { class: "hint" }, [hit.id, columns].filter(Boolean).join(" · ")),
    decision === null ? null : make("div", { class: "verdict" }, verdict(hit, decision)),
    hit.passage === null ? null : make("details", {}, make("summary", {}, "The whole text"), hit.text));
}

export function run() {
  const query = find("query").value.trim();
  const place = find("search-result");
  if (!query) {
    empty(place, "Enter what you are looking for.");
    find("query").focus();
    return;
  }
  const where = find("filters").hidden ? null : find("where").value.trim() || null;
  const on = conditional === null ? null : find("search-on").value.trim() || null;
  during(place, async (signal) => {
    const found = await call("/v1/search", { query, top_k: Number(find("hits").value), where, hybrid: find("hybrid").checked, on }, signal);
    const hits = found.results[0];
    say(`${hits.length} texts found.`);
    if (!hits.length) return [make("p", { class: "empty" }, "Nothing was found.")];
    const { decision } = found;
    return [make("ol", { class: "plain hits card", id: "hits-list" }, ...hits.map((hit) => shown(hit, decision))),
      decision === null ? null : make("p", { class: "hint", id: "threshold" }, reason(decision))].filter(Boolean);
  }, { form: find("search-form") });
}
