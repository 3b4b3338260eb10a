// The page: tabs, the link in the fragment, light and dark, and what the server says it serves.

import { call, onKey } from "./api.js";
import * as compare from "./compare.js";
import { find, make, say } from "./dom.js";
import * as many from "./many.js";
import * as search from "./search.js";

const tabs = { compare, many, search };
let current = "compare";
let ready = false;

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

function open() {
  const [name, text = ""] = location.hash.slice(1).split(/\?(.*)/s);
  if (!(name in tabs)) return;
  show(name);
  const query = new URLSearchParams(text);
  const values = Object.fromEntries([...query.keys()].map((key) => [key, query.get(key)]));
  tabs[name].write({ ...values, on: query.getAll("on") });
}

find("share").addEventListener("click", async () => {
  share();
  try {
    await navigator.clipboard.writeText(location.href);
    say("The link is copied.");
    find("share").textContent = "Copied";
  } catch {
    say("The link is in the address bar.");
    find("share").textContent = "The link is in the address bar";
  }
  setTimeout(() => { find("share").textContent = "Copy a link to this"; }, 2500);
});

find("theme").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
});

async function begin() {
  if (ready) return open();
  let models;
  try {
    models = (await call("/v1/models")).data;
  } catch (error) {
    const place = find("compare-result");
    place.replaceChildren(make("div", { class: "error", role: "alert" }, make("p", {}, error.message),
      make("button", { type: "button", onclick: begin }, "Try again")));
    return;
  }
  ready = true;
  const answering = (path, of = models) => of.find((model) => model.answers.includes(path));
  const conditional = answering("conditional");
  const about = {
    explain: Boolean(answering("explain", models.slice(0, 1))),
    conditional: conditional?.id ?? null,
    explainConditional: Boolean(conditional?.answers.includes("explain")),
    texts: answering("search")?.texts ?? null,
  };
  find("served").textContent = models[0].id;
  for (const tab of Object.values(tabs)) tab.setUp(about, share);
  open();
}

onKey(begin);
addEventListener("hashchange", open);
begin();
