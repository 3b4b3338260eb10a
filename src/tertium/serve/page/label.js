// Pairs to label, by keyboard: every answer is saved before the next pair is shown.

import { call } from "./api.js";
import { find, make, say } from "./dom.js";

let rater = null;
let state = null;
let busy = false;

find("who").addEventListener("submit", (event) => {
  event.preventDefault();
  rater = find("rater").value.trim();
  if (!rater) return;
  find("rater").blur();
  ask("/v1/label/state", {});
});
find("skip").addEventListener("click", () => answer(null));
find("undo").addEventListener("click", undo);
document.addEventListener("keydown", (event) => {
  if (rater === null || state === null || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  const key = event.key.toLowerCase();
  const at = state.labels.findIndex((each) => each.key === key);
  if (at >= 0) answer(at);
  else if (key === "s") answer(null);
  else if (key === "u" || key === "backspace") undo();
  else return;
  event.preventDefault();
});

function answer(at) {
  if (state?.item) ask("/v1/label", { id: state.item.id, label: at === null ? null : state.labels[at].value });
}

function undo() {
  if (state) ask("/v1/label/undo", {});
}

// One call at a time: a key that is pressed while an answer is saved does not count for the next pair.
async function ask(path, body) {
  if (busy) return;
  busy = true;
  try {
    show(await call(path, { rater, ...body }));
    find("problem").hidden = true;
  } catch (error) {
    find("problem").textContent = error.message;
    find("problem").hidden = false;
  } finally {
    busy = false;
  }
}

function show(found) {
  state = found;
  const { item, done, skipped, total, labels } = found;
  const passed = skipped ? `, ${skipped} skipped` : "";
  find("who").hidden = true;
  find("progress").textContent = `${rater}: ${done} of ${total}${passed}`;
  find("task").hidden = item === null;
  find("done").hidden = item !== null;
  if (item !== null) {
    find("first").textContent = item.texts[0];
    find("second").textContent = item.texts[1];
    say(`${done} of ${total}. ${item.texts[0]} — ${item.texts[1]}`);
  } else {
    say("All pairs are labelled.");
  }
  if (!find("answers").children.length) {
    find("answers").append(...labels.map((each, at) =>
      make("button", { type: "button", onclick: () => answer(at) }, `${each.key}: ${each.word}`)));
  }
}
