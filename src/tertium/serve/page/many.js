// Many texts: all their similarities, groups and duplicates, computed here from the vectors.

import { embed } from "./api.js";
import { during, empty, find, heatMap, make, round, say } from "./dom.js";

const MOST = 100;
const EXAMPLE = [
  "The ferry was cancelled because of strong winds.", "Strong gusts kept the boat in harbour.", "The ferry was cancelled because of strong wind.",
  "She is allergic to peanuts.", "She cannot eat peanuts.", "The museum is closed on Mondays.", "On Mondays the museum does not open.", "Stocks fell sharply on Friday.",
];
let last = null;
let about = null;

find("many-example").addEventListener("click", () => { find("lines").value = EXAMPLE.join("\n"); find("many-form").requestSubmit(); });
for (const id of ["same", "group"]) {
  find(id).addEventListener("input", () => {
    find(`${id}-value`).textContent = Number(find(id).value).toFixed(2);
    if (last) find("many-result").replaceChildren(...shown(last));
  });
}

export function meet(served) {
  about = served;
  return [make("p", { class: "empty" }, "Paste some sentences, one per line.")];
}

export const read = () => ({ t: find("lines").value });

export function write({ t = "" }) {
  find("lines").value = t;
}

export const filled = () => Boolean(find("lines").value.trim());

export function run() {
  const place = find("many-result");
  const texts = find("lines").value.split("\n").map((line) => line.trim()).filter(Boolean);
  last = null;
  if (texts.length < 2) {
    empty(place, "Enter two lines or more.");
    find("lines").focus();
    return;
  }
  during(place, async (signal) => {
    const kept = texts.slice(0, MOST);
    const vectors = await embed(kept, about.model, signal);
    last = { texts: kept, left: texts.length - kept.length, cosines: cosines(vectors) };
    return shown(last);
  }, { form: find("many-form") });
}

const cosines = (vectors) => vectors.map((u) => vectors.map((v) => u.reduce((sum, x, at) => sum + x * v[at], 0)));

function shown({ texts, left, cosines }) {
  const groups = grouped(cosines, Number(find("group").value));
  const order = groups.flat();
  const names = order.map((at) => texts[at]);
  const matrix = order.map((i) => order.map((j) => cosines[i][j]));
  const pairs = duplicates(cosines, Number(find("same").value));
  const several = groups.filter((group) => group.length > 1);
  say(`${texts.length} texts, ${several.length} groups, ${pairs.length} pairs of duplicates.`);
  return [
    left ? make("p", { class: "hint" }, `The first ${MOST} lines are shown; ${left} more are left out.`) : null,
    make("div", { class: "card", id: "duplicates" }, make("h2", {}, `Duplicates (${pairs.length})`),
      pairs.length ? make("ol", { class: "plain pairs" }, ...pairs.map(([i, j]) => make("li", {},
        make("span", { class: "number-tag" }, round(cosines[i][j])), " ", texts[i], make("br"), make("span", { class: "hint" }, texts[j]))))
        : make("p", { class: "hint" }, "None at this threshold.")),
    make("div", { class: "card", id: "groups" }, make("h2", {}, `Groups (${several.length})`),
      several.length ? make("ol", { class: "plain groups" }, ...several.map((group, at) => make("li", {},
        make("strong", {}, `Group ${at + 1}, ${group.length} texts`), make("ul", {}, ...group.map((i) => make("li", {}, texts[i]))))))
        : make("p", { class: "hint" }, "No two texts are that similar.")),
    make("div", { class: "card", id: "matrix" }, make("h2", {}, "Similarity of every pair"),
      make("p", { class: "hint" }, "Cosines; members of a group stand side by side."),
      heatMap(names.map((name, at) => `${at + 1} ${name}`), names.map((_, at) => String(at + 1)), matrix, { caption: "Similarity of every pair", numbers: names.length <= 16 })),
  ].filter(Boolean);
}

function duplicates(values, least) {
  const found = [];
  values.forEach((row, i) => row.forEach((value, j) => { if (i < j && value >= least) found.push([i, j]); }));
  return found.sort((a, b) => values[b[0]][b[1]] - values[a[0]][a[1]]);
}

// Agglomerative, by the mean similarity of two groups, largest group first.
function grouped(values, least) {
  let groups = values.map((_, at) => [at]);
  const sums = values.map((row) => row.slice());
  while (groups.length > 1) {
    let best = [-1, -1, least];
    for (let i = 0; i < groups.length; i++) {
      for (let j = i + 1; j < groups.length; j++) {
        const mean = sums[i][j] / (groups[i].length * groups[j].length);
        if (mean >= best[2]) best = [i, j, mean];
      }
    }
    const [i, j] = best;
    if (i < 0) break;
    groups[i] = [...groups[i], ...groups[j]];
    for (let k = 0; k < groups.length; k++) { sums[i][k] += sums[j][k]; sums[k][i] = sums[i][k]; }
    groups.splice(j, 1);
    sums.splice(j, 1);
    sums.forEach((row) => row.splice(j, 1));
  }
  return groups.sort((a, b) => b.length - a.length);
}
