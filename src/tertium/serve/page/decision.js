// What a fitted threshold says of a pair, in words; as tertium.records.decision says it.

import { round } from "./dom.js";

const percent = (share) => `${Math.min(Math.max(Math.round(100 * share), 1), 99)} %`;

// Yes or no, and how sure that is.
export function verdict({ decision, probability, grade }, { name }) {
  if (decision === null) return `grade ${round(grade)}`;
  const said = `${name}: ${decision}`;
  const yes = decision === "yes";
  if (probability === null) return said;
  const sure = yes ? probability : 1 - probability;
  if (sure >= 0.5) return `${said}, ${percent(sure)} sure`;
  return `${said} (${percent(probability)} likely, ${yes ? "but the threshold asks for less" : "and the threshold asks for more"})`;
}

// Which threshold that is, and where it comes from.
export function reason({ threshold, goal, wanted, confidence, pairs, file }) {
  const origin = `fitted on ${pairs} pairs of ${file}`;
  if (threshold === null) return `Grades ${origin}.`;
  const aim = goal === "f1" ? "the best F1" : `${goal} ≥ ${wanted} at ${percent(confidence)} confidence`;
  return `Threshold ${round(threshold, 4)} for ${aim}, ${origin}.`;
}
