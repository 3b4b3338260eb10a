// The page: tabs, the link in the fragment, light and dark, and what the server says it serves.

import { call, onKey } from "./api.js";
import * as compare from "./compare.js";
import { copy, during, find, make } from "./dom.js";
import * as many from "./many.js";
import * as search from "./search.js";

const tabs = { compare, many, search };
let current = "compare";
let ready = false; // whether it is known what the server serves
let asking = false;

function show(name, { focus = false } = {}) {
  current = name;
  for (const each of Object.keys(tabs)) {
    const tab = find(`tab-${each}`);
    tab.setAttribute("aria-selected", String(each === name));
    tab.tabIndex = each === name ? 0 : -1;
    find(each).hidden = each !== name;
    if (each === name && focus) tab.focus();
  }
}

for (const name of Object.keys(tabs)) {
  find(`tab-${name}`).addEventListener("click", () => { show(name); share(); });
  find(`tab-${name}`).addEventListener("keydown", (event) => {
    const names = Object.keys(tabs);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const next = event.key === "Home" ? 0 : event.key === "End" ? names.length - 1
      : step ? (names.indexOf(name) + step + names.length) % names.length : null;
    if (next === null) return;
    event.preventDefault();
    show(names[next], { focus: true });
  });
}

// What is on the page, as #tab?name=value…, which no browser sends to a server.
function link() {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(tabs[current].read())) {
    for (const each of [value].flat()) if (each) query.append(name, each);
  }
  return `#${current}${query.size ? `?${query}` : ""}`;
}

const share = () => history.replaceState(null, "", link());

// Fills the fields from the link, if it names a tab.
function open() {
  const [name, text = ""] = location.hash.slice(1).split(/\?(.*)/s);
  if (!Object.hasOwn(tabs, name)) return false;
  show(name);
  const query = new URLSearchParams(text);
  const values = Object.fromEntries([...query.keys()].map((key) => [key, query.get(key)]));
  tabs[name].write({ ...values, on: query.getAll("on") });
  return true;
}

find("share").addEventListener("click", () => {
  share();
  copy(find("share"), () => location.href, "The link is in the address bar");
});

find("theme").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
});

// What the chosen models can do; the server may have several of either kind.
function summary({ data: models, version }) {
  const answering = (path) => models.filter((model) => model.answers.includes(path));
  const chosen = offer("model", "models", answering("embeddings"));
  const conditional = offer("conditional-model", "conditional-models", answering("conditional"));
  return {
    version,
    model: chosen.id,
    explain: chosen.answers.includes("explain"),
    conditional: conditional?.id ?? null,
    explainConditional: Boolean(conditional?.answers.includes("explain")),
    texts: answering("search")[0]?.texts ?? null,
    columns: answering("search")[0]?.columns ?? [],
  };
}

// Offers the models, if there are several, and gives the one that is chosen.
function offer(id, place, models) {
  const select = find(id);
  const names = models.map((model) => model.id);
  if (names.join("\n") !== [...select.options].map((option) => option.value).join("\n")) {
    select.replaceChildren(...names.map((name) => make("option", { value: name }, name)));
  }
  find(place).hidden = models.length < 2;
  return models.find((model) => model.id === select.value) ?? models[0];
}

for (const id of ["model", "conditional-model"]) {
  find(id).addEventListener("change", () => { ready = false; begin(); });
}

// Asks what is served unless that is known, then for what the current tab holds.
async function begin() {
  if (asking) return;
  if (!ready) {
    asking = true;
    const found = call("/v1/models").then(summary);
    for (const [name, tab] of Object.entries(tabs)) {
      during(find(`${name}-result`), async () => tab.meet(await found), { again: begin, waiting: "Asking the server…" });
    }
    try {
      find("served").textContent = (await found).model;
      find("served").hidden = !find("models").hidden;
      ready = true;
    } catch {
      return; // every tab says why
    } finally {
      asking = false;
    }
  }
  if (tabs[current].filled()) tabs[current].run();
}

for (const [name, tab] of Object.entries(tabs)) {
  find(`${name}-form`).addEventListener("submit", (event) => {
    event.preventDefault();
    share();
    if (ready) tab.run();
    else begin();
  });
}
onKey(begin);
addEventListener("hashchange", () => { if (open()) begin(); });
open();
begin();
