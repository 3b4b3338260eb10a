// Small helpers: elements without markup in strings, so that no text can become code.

export const find = (id) => document.getElementById(id);

export function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "class") element.className = value;
    else if (name === "vars") for (const [key, v] of Object.entries(value)) element.style.setProperty(`--${key}`, v);
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const say = (message) => { find("live").textContent = message; };

// Copies a text and says so on the button; where copying is forbidden, says what to do instead.
export async function copy(button, text, otherwise) {
  const name = button.textContent;
  try {
    await navigator.clipboard.writeText(text());
    button.textContent = "Copied";
  } catch {
    button.textContent = otherwise;
  }
  say(button.textContent);
  setTimeout(() => { button.textContent = name; }, 2500);
}

export const round = (value, digits = 2) => value.toFixed(digits).replace(/^-(?=0\.?0*$)/, "").replace("-", "−");

const turns = new WeakMap(); // the work that a place waits for

// Whatever a place waits for is no longer wanted.
export function stop(place) {
  turns.get(place)?.abort();
  turns.delete(place);
}

export function empty(place, message) {
  stop(place);
  place.replaceChildren(make("p", { class: "empty" }, message));
}

// Runs some work for a place: shows that it waits, then what it made, or what went wrong.
// Of several works for one place, only the last is shown.
export async function during(place, work, { form = null, again = () => form.requestSubmit(), waiting = "Asking the model…" }) {
  stop(place);
  const turn = new AbortController();
  turns.set(place, turn);
  const busy = (yes) => {
    if (form) form.querySelector("[type=submit]").disabled = yes;
    place.setAttribute("aria-busy", String(yes));
  };
  busy(true);
  place.replaceChildren(make("p", { class: "waiting" }, waiting));
  let made;
  try {
    made = await work(turn.signal);
  } catch (error) {
    made = [make("div", { class: "error", role: "alert" }, make("p", {}, error.message),
      make("button", { type: "button", onclick: again }, "Try again"))];
  }
  if (!turn.signal.aborted) place.replaceChildren(...made);
  if ((turns.get(place) ?? turn) === turn) busy(false);
}

// What whole grades mean, in the words that raters were given: STS-B from 0 to 5, C-STS from 1 to 5.
const GRADES = {
  "0,5": ["unrelated", "not equivalent, same topic", "not equivalent, some details in common",
    "roughly equivalent, some details differ", "mostly equivalent, unimportant details differ", "the same meaning"],
  "1,5": ["dissimilar", "somewhat dissimilar", "neither similar nor dissimilar", "somewhat similar", "similar"],
};

// A grade in words, such as "3 = roughly equivalent, some details differ"; null for other scales.
export function meaning(score, scale) {
  const words = GRADES[scale.join()];
  if (!words) return null;
  const nearest = Math.round(Math.min(Math.max(score, scale[0]), scale[1]));
  return `${nearest} = ${words[nearest - scale[0]]}`;
}

// The place of a score on its scale, as a bar with both ends named.
export function scoreBar(score, scale, { what = null, choice = null, small = false } = {}) {
  const [low, high] = scale;
  const share = Math.min(Math.max((score - low) / (high - low), 0), 1);
  const cosine = low === -1 && high === 1;
  const unit = cosine ? " cosine" : ` of ${high}`;
  const words = meaning(score, scale);
  return make("div", { class: small ? "score small" : "score" },
    what === null ? null : make(choice ? "label" : "div", { class: "what" }, choice, what),
    make("div", { class: "number" }, round(score), make("small", {}, unit)),
    make("div", {},
      make("div", { class: "scale", role: "meter", "aria-label": what ?? "Score", "aria-valuemin": low,
        "aria-valuemax": high, "aria-valuenow": score.toFixed(2) }, make("i", { vars: { share } })),
      make("div", { class: "ends", "aria-hidden": "true" },
        make("span", {}, cosine ? "−1 opposite" : `${low} unrelated`),
        make("span", {}, cosine ? "1 the same" : `${high} says the same`)),
      words === null ? null : make("div", { class: "meaning" }, words)));
}

// A table of numbers from -1 to 1 as colours; every cell also holds its number.
export function heatMap(rows, columns, values, { caption, numbers = true }) {
  const slanted = columns.length > 8 || columns.some((name) => name.length > 12);
  const head = make("tr", {}, make("td", {}),
    ...columns.map((name) => make("th", { scope: "col", class: slanted ? "slanted" : "", title: name }, name)));
  const body = rows.map((name, i) => make("tr", {}, make("th", { scope: "row", title: name }, name),
    ...columns.map((other, j) => {
      const value = values[i][j];
      return make("td", { class: value < 0 ? "minus" : "", vars: { much: Math.abs(value).toFixed(3) }, title: `${name} · ${other}: ${round(value)}` },
        numbers ? round(value) : make("span", { class: "unseen" }, round(value)));
    })));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    make("table", { class: "heat" }, make("caption", { class: "unseen" }, caption),
      make("thead", {}, head), make("tbody", {}, ...body)));
}
