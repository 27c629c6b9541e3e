// The table of candidates: every stage fills its column, and the rows move to the order it gave.

import { byId, fill, hidden, make } from "./dom.js";
import { characters } from "./text.js";

const MOVE_MS = 500;
const COLUMNS = ["retriever", "reranker", "compressor", "ordering"];

export class Ranking {
  /** `source` tells names and texts of documents: `{name(index), text(index)}`. */
  constructor(source) {
    this.source = source;
    this.rows = new Map();
    this.body = fill(byId("ranking").tBodies[0]);
    /** Positions in the request of the documents that the retriever found, best first. */
    this.candidates = [];
  }

  /** A `stage` event. */
  stage({ stage, documents }) {
    if (stage === "retriever") this.candidates = documents.map((item) => item.index);
    for (const [place, item] of documents.entries()) {
      const row = this.row(item);
      if (stage === "compressor") row.show(stage, this.share(item), "");
      else if (stage === "ordering") row.show(stage, String(place + 1), "");
      else row.rank(stage, item);
    }
    if (stage !== "compressor") this.sort(documents.map((item) => item.index));
    byId("ranking-part").hidden = this.rows.size === 0;
  }

  /** The answer: what no event has told. */
  result({ results }) {
    results.forEach((item, place) => {
      const row = this.row(item);
      row.show("ordering", String(place + 1), "");
      if (item.tokens_before) row.show("compressor", percent(item.tokens_after / item.tokens_before), "");
    });
    for (const row of this.rows.values()) row.mark(results.some((item) => item.index === row.index));
    this.sort(results.map((item) => item.index));
  }

  row(item) {
    if (!this.rows.has(item.index)) {
      const row = new Row(item, this.source.name(item.index, item.id));
      this.rows.set(item.index, row);
      this.body.append(row.element);
    }
    return this.rows.get(item.index);
  }

  share({ index, spans }) {
    const text = this.source.text(index);
    if (text === null) return spans.length ? "some" : "0 %";
    const kept = spans.reduce((sum, [start, end]) => sum + end - start, 0);
    return percent(kept / Math.max(1, characters(text).length));
  }

  /** Put the rows of `order` on top; the others follow as they stood. Each glides from where it was. */
  sort(order) {
    const before = new Map([...this.rows].map(([index, row]) => [index, row.element.getBoundingClientRect().top]));
    const first = new Set(order);
    const others = [...this.body.children].filter((element) => !first.has(Number(element.dataset.index)));
    this.body.append(...order.map((index) => this.rows.get(index).element), ...others);
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    for (const [index, { element }] of this.rows) {
      const distance = before.get(index) - element.getBoundingClientRect().top;
      if (distance) {
        element.animate([{ transform: `translateY(${distance}px)` }, { transform: "none" }], {
          duration: MOVE_MS,
          easing: "ease-in-out",
        });
      }
    }
  }
}

class Row {
  constructor({ index }, name) {
    this.index = index;
    this.places = [];
    this.cells = Object.fromEntries(COLUMNS.map((stage) => [stage, make("td", {}, "–")]));
    this.element = make("tr", { "data-index": index }, make("th", { scope: "row" }, name), ...Object.values(this.cells));
  }

  rank(stage, { rank, score }) {
    const before = this.places.at(-1);
    this.places.push(rank);
    const moved = before === undefined ? 0 : before - rank;
    const parts = [make("b", {}, String(rank))];
    if (moved) {
      const up = moved > 0;
      const steps = Math.abs(moved);
      parts.push(
        make("span", { class: up ? "up" : "down", "aria-hidden": "true" }, ` ${up ? "▲" : "▼"}${steps}`),
        hidden(`, ${up ? "up" : "down"} ${steps}`),
      );
    }
    fill(this.cells[stage], ...parts, make("small", {}, hidden(", score "), score.toFixed(3)));
  }

  show(stage, main, small) {
    fill(this.cells[stage], make("b", {}, main), ...(small ? [make("small", {}, small)] : []));
  }

  mark(kept) {
    this.element.className = kept ? "kept" : "away";
  }
}

const percent = (share) => `${Math.round(share * 100)} %`;
