// Two texts, any number of conditions: scores, the words that made them, and how words belong together.

import { call } from "./api.js";
import { reason, verdict } from "./decision.js";
import { copy, during, empty, find, heatMap, make, meaning, round, say, scoreBar, stop } from "./dom.js";

const EXAMPLE = ["A man is playing a guitar on stage.", "Someone plays an instrument for a crowd."];
const CONDITIONS = ["what they do", "the number of people"]; // of the example
const EXAMPLES = {
  "A paraphrase": ["The museum is closed on Mondays.", "On Mondays the museum does not open."],
  "A contradiction": ["The patient is allergic to penicillin.", "The patient is not allergic to penicillin."],
  "Roles swapped": ["The dog bites the man.", "The man bites the dog."],
  "Only the topic": ["The invoice is wrong.", "Please send me a copy of the invoice."],
};
const reasons = make("div", { id: "reasons" });
const explained = new Map(); // by condition, of the two texts shown
let about = null;

find("add-condition").addEventListener("click", () => addCondition("").focus());
for (const id of ["text-a", "text-b"]) {
  find(id).addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.repeat) find("compare-form").requestSubmit();
  });
}
find("example").addEventListener("click", () => {
  write({ a: EXAMPLE[0], b: EXAMPLE[1], on: CONDITIONS });
  find("compare-form").requestSubmit();
});
find("examples").append(...Object.entries(EXAMPLES).map(([name, [a, b]]) =>
  make("button", { type: "button", class: "quiet", onclick: () => { write({ a, b }); find("compare-form").requestSubmit(); } }, name)));

export function meet(served) {
  about = served;
  const conditional = about.conditional !== null;
  find("no-conditions").hidden = conditional;
  find("conditions-hint").hidden = find("add-condition").hidden = !conditional;
  if (!conditional) find("condition-list").replaceChildren();
  return [make("p", { class: "empty" }, "Enter two texts to see how similar they are.")];
}

export const read = () => ({ a: find("text-a").value, b: find("text-b").value, on: conditions() });

export function write({ a = "", b = "", on = [] }) {
  find("text-a").value = a;
  find("text-b").value = b;
  find("condition-list").replaceChildren();
  if (!find("add-condition").hidden) on.forEach(addCondition);
}

export const filled = () => Boolean(find("text-a").value.trim() && find("text-b").value.trim());

const conditions = () =>
  [...find("condition-list").querySelectorAll("input")].map((input) => input.value.trim()).filter(Boolean);

function addCondition(value) {
  const number = find("condition-list").children.length + 1;
  const input = make("input", { type: "text", "aria-label": `Condition ${number}`, placeholder: "the number of people", maxlength: "2000" });
  input.value = value;
  const remove = make("button", { type: "button", class: "quiet", "aria-label": `Remove condition ${number}` }, "Remove");
  const item = make("li", {}, input, remove);
  remove.addEventListener("click", () => {
    const next = item.nextElementSibling ?? item.previousElementSibling;
    item.remove();
    (next?.querySelector("input") ?? find("add-condition")).focus();
  });
  find("condition-list").append(item);
  return input;
}

export function run() {
  const { a, b, on } = read();
  const place = find("compare-result");
  stop(reasons);
  explained.clear();
  if (!a.trim() || !b.trim()) {
    empty(place, "Enter a text in both fields.");
    (a.trim() ? find("text-b") : find("text-a")).focus();
    return;
  }
  during(place, async (signal) => {
    const [overall, conditional] = await Promise.all([
      call("/v1/similarity", { pairs: [[a, b]], model: about.model }, signal),
      on.length ? call("/v1/conditional", { triples: on.map((condition) => [a, b, condition]), model: about.conditional }, signal) : null,
    ]);
    const score = overall.scores[0];
    const words = meaning(score, overall.scale);
    say(`Score ${round(score)} on a scale from ${overall.scale[0]} to ${overall.scale[1]}${words ? `, ${words}` : ""}.`);
    const card = make("div", { class: "card", id: "scores" }, make("h2", {}, "How similar"));
    if (conditional) {
      const choice = (condition) => make("input", { type: "radio", name: "explained", checked: condition === null, onchange: () => explain(a, b, condition) });
      card.append(
        make("p", { class: "hint" }, "Choose the score whose words are shown below."),
        scoreBar(score, overall.scale, { what: "overall", choice: choice(null) }),
        ...on.map((condition, at) => scoreBar(conditional.scores[at], conditional.scale, { what: `with respect to: ${condition}`, choice: choice(condition), small: true })));
    } else {
      card.append(scoreBar(score, overall.scale));
    }
    if (overall.decision) {
      const said = verdict(overall.decisions[0], overall.decision);
      say(said);
      card.append(make("p", { class: "verdict" }, make("strong", {}, said), make("br"), make("span", { class: "hint" }, reason(overall.decision))));
    }
    card.append(copies({ a, b, overall, on, conditional }));
    explain(a, b, null);
    return [card, reasons];
  }, { form: find("compare-form") });
}

// What was found, as a sentence for a paper or a ticket, and as JSON for a program.
function copies({ a, b, overall, on, conditional }) {
  const made = `tertium ${about.version}`;
  const value = (score, [low, high]) => low === -1 ? `a cosine of ${round(score)}` : `${round(score)} on a scale from ${low} to ${high}`;
  const sentence = () => {
    const under = on.map((condition, at) => `; with respect to “${condition}”, ${value(conditional.scores[at], conditional.scale)} (model ${conditional.model})`).join("");
    return `The similarity of “${a}” and “${b}” is ${value(overall.scores[0], overall.scale)} (${made}, model ${overall.model})${under}.`;
  };
  const json = () => JSON.stringify({ a, b, score: overall.scores[0], scale: overall.scale, model: overall.model,
    conditions: on.map((condition, at) => ({ condition, score: conditional.scores[at], scale: conditional.scale, model: conditional.model })), made }, null, 2);
  const button = (name, text) => {
    const made = make("button", { type: "button", class: "quiet", onclick: () => copy(made, text, "Copying is not allowed here") }, name);
    return made;
  };
  return make("div", { class: "row" }, button("Copy as a sentence", sentence), button("Copy as JSON", json));
}

// The words that made one of the scores, or why there are none; scores stay either way.
function explain(a, b, on) {
  during(reasons, async (signal) => {
    if (!(on === null ? about.explain : about.explainConditional)) {
      return [make("p", { class: "card hint" }, "This server does not explain scores.")];
    }
    try {
      const found = explained.get(on) ?? await call("/v1/explain", { a, b, on, model: on === null ? about.model : about.conditional }, signal);
      explained.set(on, found);
      return [words(found), ...(found.alignment ? [alignment(found)] : [])];
    } catch (error) {
      throw new Error(`The words behind the score are missing: ${error.message}`);
    }
  }, { again: () => explain(a, b, on), waiting: "Looking for the words behind the score…" });
}

function words(found) {
  const all = found.texts.flatMap((text) => text.words.map((word) => Math.abs(word.occlusion)));
  const most = Math.max(...all, 1e-9);
  const lines = found.texts.map((text) => make("p", { class: "words" }, ...text.words.flatMap((word) => {
    const much = Math.abs(word.occlusion) / most;
    const kind = much < 0.04 ? "" : word.occlusion > 0 ? "plus" : "minus";
    return [make("span", { class: kind, vars: { much: much.toFixed(3) }, title: `Without “${word.word}” the score ${word.occlusion > 0 ? "falls" : "rises"} by ${round(Math.abs(word.occlusion))}` }, word.word), " "];
  })));
  const change = found.smallest_change;
  const gone = ["first", "second"].map((name, side) => [name, change.removed.filter((each) => each.text === side)])
    .filter(([, from]) => from.length)
    .map(([name, from]) => `${from.map((each) => `“${each.word}”`).join(", ")} of the ${name} text`).join(" and ");
  const sentence = !gone ? null : make("p", {}, change.reached
    ? `Without ${gone} the score would be ${round(change.score)}.`
    : `No small group of words changes the score much: without ${gone} it would be ${round(change.score)}.`);
  const rows = found.texts.flatMap((text, side) => text.words.map((word) =>
    make("tr", {}, make("td", {}, side ? "second" : "first"), make("td", { class: "word" }, word.word), make("td", {}, round(word.occlusion, 3)))));
  return make("div", { class: "card", id: "words" }, make("h2", {}, found.condition ? `The words behind the score, with respect to: ${found.condition}` : "The words behind the score"),
    ...lines,
    make("p", { class: "legend" },
      make("span", {}, make("b", { class: "plus", "aria-hidden": "true" }), "makes them similar"),
      make("span", {}, make("b", { class: "minus", "aria-hidden": "true" }), "sets them apart (dashed)")),
    sentence,
    make("details", {}, make("summary", {}, "As a table"),
      make("table", { class: "list" }, make("thead", {}, make("tr", {}, ...["text", "word", "score falls without it by"].map((name) => make("th", { scope: "col" }, name)))),
        make("tbody", {}, ...rows))),
    ...(found.notes ?? []).map((note) => make("p", { class: "hint" }, note)));
}

function alignment(found) {
  const [rows, columns] = found.texts.map((text) => text.words.map((word) => word.word));
  return make("div", { class: "card", id: "alignment" }, make("h2", {}, "Which words belong together"),
    make("p", { class: "hint" }, "Cosine of each word of the first text (rows) with each of the second (columns), as the model's last layer sees them."),
    heatMap(rows, columns, found.alignment, { caption: "Similarity of words" }));
}
