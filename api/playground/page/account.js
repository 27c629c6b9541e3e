// The account of an answer: stages as they end, totals, timings, warnings, what was left out, errors.

import { byId, fill, make, number, plural, seconds } from "./dom.js";

const STAGES = new Map([
  ["retriever", "Retrieved"],
  ["reranker", "Reranked"],
  ["compressor", "Compressed"],
  ["ordering", "Ordered"],
]);
const REASONS = {
  not_retrieved: "not retrieved",
  below_top_n: "ranked too low",
  compressed_away: "nothing in it kept",
};
const SHOWN_DROPPED = 12;

/** Show that a request is at work, and nothing of the one before. */
export function begin() {
  for (const part of document.querySelectorAll("#results > section")) part.hidden = true;
  for (const id of ["error", "warnings"]) byId(id).hidden = true;
  const items = [...STAGES].map(([stage, label]) =>
    make("li", { "data-stage": stage }, make("b", {}, label), make("span", {}, "waiting")),
  );
  fill(byId("stages"), ...items).hidden = false;
  say("The service is at work …");
}

export function say(text) {
  byId("status").textContent = text;
}

/** A `stage` event. */
export function stage(event) {
  const item = byId("stages").querySelector(`[data-stage="${CSS.escape(event.stage)}"]`);
  if (!item) return;
  const inTokens = event.stage === "compressor";
  const [before, after] = inTokens
    ? [event.tokens_in, event.tokens_out]
    : [event.documents_in, event.documents_out];
  const what = `${number(before)} → ${plural(after, inTokens ? "token" : "document")}`;
  item.className = "done";
  fill(item, make("b", {}, STAGES.get(event.stage)), make("span", {}, what), make("small", {}, `${event.name} · ${seconds(event.seconds)}`));
  say(`${STAGES.get(event.stage)}: ${what}, ${seconds(event.seconds)}`);
}

/** What the answer says of itself. `name` gives a document's name by position and id. */
export function result(answer, name) {
  for (const item of byId("stages").children) {
    if (item.className === "done") continue;
    item.className = "off";
    item.lastElementChild.textContent = "not run";
  }
  const { usage, timings, warnings } = answer;
  const saved = usage.corpus_tokens ? usage.saved_tokens / usage.corpus_tokens : 0;
  const share = `${(100 * saved).toFixed(saved > 0.99 ? 1 : 0)} %`;
  say(
    `Done in ${seconds(timings.total)}: ${plural(answer.results.length, "document")}, ` +
      `${number(usage.context_tokens)} of ${plural(usage.corpus_tokens, "token")}.`,
  );
  tiles([
    [share, "of the tokens saved"],
    [`${number(usage.corpus_tokens)} → ${number(usage.context_tokens)}`, "tokens, corpus to context"],
    [seconds(timings.total), "in all"],
    [number(usage.encoded_tokens), "tokens read for the first time"],
    [number(usage.cached_blocks), "passages known from before"],
  ]);
  bars(timings);
  notes(warnings);
  dropped(answer.dropped, name);
}

export function failed(error) {
  const code = [error.status, error.code, error.param && `at ${error.param}`].filter(Boolean).join(" · ");
  const id = error.requestId ? `Request ${error.requestId}` : "";
  const small = [code, id].filter(Boolean).join(" · ");
  fill(byId("error"), make("p", {}, error.message), ...(small ? [make("small", {}, small)] : [])).hidden = false;
  byId("stages").hidden = !byId("stages").querySelector(".done");
  say("Not answered.");
}

function tiles(pairs) {
  const items = pairs.map(([value, what]) => make("div", {}, make("dt", {}, what), make("dd", {}, value)));
  fill(byId("totals"), ...items);
  byId("totals-part").hidden = false;
}

function bars({ total, ...parts }) {
  const labels = { queue: "Waiting", ...Object.fromEntries(STAGES) };
  const told = Object.values(parts).reduce((sum, value) => sum + value, 0);
  const rows = [...Object.entries(parts), ["rest", Math.max(0, total - told)]];
  const items = rows.map(([part, value]) => {
    const bar = make("i", { "aria-hidden": "true" });
    bar.style.setProperty("width", `${total ? Math.min(100, (100 * value) / total) : 0}%`);
    return make("li", {}, make("span", {}, labels[part] ?? "Counting, assembling"), make("span", { class: "bar" }, bar), make("span", { class: "figure" }, seconds(value)));
  });
  fill(byId("timings"), ...items);
  byId("timings-part").hidden = false;
}

function notes(warnings) {
  const box = byId("warnings");
  box.hidden = warnings.length === 0;
  fill(box, ...warnings.map((text) => make("p", {}, text)));
}

function dropped(items, name) {
  const line = (item) =>
    make(
      "li",
      {},
      make("b", {}, name(item.index, item.id)),
      make("span", { class: "reason" }, REASONS[item.reason] ?? item.reason),
      make("span", { class: "hint" }, item.detail),
    );
  // The nearest misses first; what was never ranked, last.
  const sorted = [...items].sort((a, b) => (a.rank ?? Infinity) - (b.rank ?? Infinity) || a.index - b.index);
  const rest = sorted.slice(SHOWN_DROPPED);
  const more = make("details", {}, make("summary", {}, `and ${rest.length} more`), make("ul", { class: "dropped" }, ...rest.map(line)));
  fill(byId("dropped"), ...sorted.slice(0, SHOWN_DROPPED).map(line), ...(rest.length ? [make("li", { class: "more" }, more)] : []));
  byId("dropped-part").hidden = items.length === 0;
}
