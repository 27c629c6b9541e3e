// What the reader sees: each document of the context with its kept sentences in place, and the attention behind it.

import { fill, make, number, plural } from "./dom.js";
import { characters, cut, runs } from "./text.js";

const HEAT_LEVELS = 5;
const SHOWN_HEADS = 6;
const SHOWN_TOKENS = 8;

/**
 * One document of an answer. `text` is its whole text, or null where the page does not have it; `explain` fetches what
 * `/v1/explain` says of it, or is null.
 */
export function reading(item, place, name, text, explain) {
  const body = text === null ? keptAlone(item) : inPlace(item, text);
  const facts = [
    `rank ${item.rank}`,
    `score ${item.score.toFixed(3)}`,
    item.empty ? "no text" : `${number(item.tokens_after)} of ${plural(item.tokens_before, "token")}`,
    ...(item.windowed ? [`read in ${item.windows} overlapping parts`] : []),
  ];
  const article = make(
    "article",
    { class: "reading", "data-index": item.index },
    make("h3", {}, make("span", { class: "place" }, String(place)), ` ${name}`),
    make("p", { class: "hint" }, facts.join(" · ")),
    body,
  );
  if (explain !== null && text !== null && !item.empty) article.append(...attention(item, text, explain));
  return article;
}

function inPlace(item, text) {
  const points = characters(text);
  const parts = item.sentences?.length ? item.sentences : item.spans.map((span) => ({ span, kept: true }));
  return make(
    "p",
    { class: "passage" },
    ...runs(parts, 0, points.length).map(({ span, part }) => {
      const words = cut(points, span);
      if (part === null && !words.trim()) return words;
      const title = part?.score === undefined ? undefined : `sentence score ${part.score.toFixed(4)}`;
      return part?.kept ? make("mark", { title }, words) : make("span", { class: "left-out", title }, words);
    }),
  );
}

const keptAlone = (item) => make("p", { class: "passage" }, make("mark", {}, item.text ?? ""));

function attention(item, text, explain) {
  const region = make("div", { class: "attention", hidden: "" });
  const button = make(
    "button",
    { type: "button", class: "explain", "aria-expanded": "false" },
    "The attention behind this score",
  );
  let asked = false;
  button.addEventListener("click", async () => {
    const open = region.hidden;
    region.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
    if (!open || asked) return;
    asked = true;
    fill(region, make("p", { role: "status" }, "Reading the attention …"));
    try {
      fill(region, ...heatMap(await explain(item.index), text));
    } catch (error) {
      asked = false;
      fill(region, make("p", { role: "alert", class: "notice bad" }, error.message));
    }
  });
  return [button, region];
}

function heatMap(found, text) {
  const points = characters(text);
  const tokens = found.tokens.filter((token) => token.value > 0);
  const most = Math.max(...tokens.map((token) => token.value), Number.MIN_VALUE);
  // The square root, so that the many small shares beside the few large ones can be seen.
  const level = (value) => Math.ceil(Math.sqrt(value / most) * HEAT_LEVELS);
  const map = runs(tokens, ...found.window).map(({ span, part }) => {
    const words = cut(points, span);
    return part === null
      ? words
      : make("span", { class: `heat-${level(part.value)}`, title: `+${part.value.toFixed(5)}` }, words);
  });
  const strongest = [...tokens].sort((a, b) => b.value - a.value).slice(0, SHOWN_TOKENS);
  const legend = Array.from({ length: HEAT_LEVELS }, (_, step) =>
    make("span", { class: `heat-${step + 1}`, "aria-hidden": "true" }, "  "),
  );
  return [
    make("p", { class: "hint" }, "little ", ...legend, ` much. Attention score ${found.score.toFixed(4)}, of which title and template ${found.outside.toFixed(4)}`
      + (found.windows > 1 ? `; the one of ${found.windows} parts that decides` : "")),
    make("p", { class: "passage heat" }, ...map),
    share("Strongest tokens", strongest.map((token) => [cut(points, token.span).trim(), token.value])),
    share("Strongest heads", found.heads.slice(0, SHOWN_HEADS).map(({ head, value }) => [head, value])),
  ];
}

const share = (what, pairs) =>
  make(
    "p",
    { class: "shares" },
    make("b", {}, `${what}: `),
    ...pairs.flatMap(([name, value]) => [make("code", {}, name), ` ${value >= 0 ? "+" : ""}${value.toFixed(4)}  `]),
  );
