// Text of documents. The service counts characters in Unicode code points, JavaScript in UTF-16 units: this file is
// where the two meet.

/** The code points of a text, so that `.slice(start, end)` of it takes the service's spans. */
export const characters = (text) => Array.from(text);

/** The text of `[start, end)` in code points. */
export const cut = (points, [start, end]) => points.slice(start, end).join("");

/**
 * Divide `[from, to)` into runs that follow each other without gap or overlap.
 *
 * `parts` are `{span, ...}` in any order; what of one is covered by an earlier one is cut off. Runs that no part
 * covers have `part: null`.
 */
export function runs(parts, from, to) {
  const found = [];
  let at = from;
  for (const part of [...parts].sort((a, b) => a.span[0] - b.span[0] || a.span[1] - b.span[1])) {
    const start = Math.max(part.span[0], at);
    const end = Math.min(part.span[1], to);
    if (end <= start) continue;
    if (start > at) found.push({ span: [at, start], part: null });
    found.push({ span: [start, end], part });
    at = end;
  }
  if (at < to) found.push({ span: [at, to], part: null });
  return found;
}

/**
 * Read pasted documents: `{documents, kind}`, each a string or, from JSON lines, what the line holds.
 *
 * Throws an Error that names the line that is not JSON.
 */
export function readDocuments(text, format) {
  const kind = format === "auto" ? guess(text) : format;
  if (kind === "jsonl") return { kind, documents: jsonLines(text) };
  const separator = kind === "paragraphs" ? /\r?\n[^\S\n]*\r?\n\s*/ : /\r?\n/;
  return { kind, documents: text.split(separator).map((part) => part.trim()).filter(Boolean) };
}

function guess(text) {
  const given = text.trim();
  if (given.startsWith("{") || given.startsWith("[{") || given.startsWith('["')) return "jsonl";
  return /\n[^\S\n]*\r?\n/.test(given) ? "paragraphs" : "lines";
}

function jsonLines(text) {
  const whole = text.trim();
  if (whole.startsWith("[")) {
    try {
      return JSON.parse(whole);
    } catch (error) {
      throw new Error(`the documents are not a JSON list: ${error.message}`);
    }
  }
  const found = [];
  whole.split(/\r?\n/).forEach((line, number) => {
    if (!line.trim()) return;
    try {
      found.push(JSON.parse(line));
    } catch (error) {
      throw new Error(`line ${number + 1} of the documents is not JSON: ${error.message}`);
    }
  });
  return found;
}
