// The page: reads the form, asks the service, hands what comes back to the views.

import * as account from "./account.js";
import { byId, fill, make, plural } from "./dom.js";
import { Ranking } from "./ranking.js";
import { reading } from "./reading.js";
import { ask, stream } from "./service.js";
import * as snippets from "./snippets.js";
import { readDocuments } from "./text.js";

const MOST_EXPLAINED = 50; // as /v1/explain accepts
const EXAMPLE_BUDGET = "160";
const SHOWN_NAME = 60;
const SEPARATED = { lines: "one per line", paragraphs: "separated by blank lines", jsonl: "from JSON" };

const value = (id) => byId(id).value.trim();
const key = () => value("key");
const stored = () => byId("form").elements.source.value === "stored";

let running = null; // the AbortController of the request at work
let example = null;
let asked = 0;

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  run();
});
byId("query").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  byId("form").requestSubmit();
});
byId("stop").addEventListener("click", () => running?.abort());
byId("example").addEventListener("click", loadExample);
byId("documents").addEventListener("input", count);
byId("format").addEventListener("change", count);
byId("corpora").addEventListener("click", listCorpora);
for (const choice of byId("form").elements.source) choice.addEventListener("change", chooseSource);
for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", () => copy(button));
count();
chooseSource(); // a browser may come back to the page with the other choice still made

/** What the form asks for: `{path, body, documents, corpus}`; `documents` is null for a stored corpus. */
function request() {
  const options = {};
  for (const id of ["top_n", "retrieve_k", "budget"]) {
    // What is not a whole number goes out as it is: the service says what it accepts.
    if (value(id)) options[id] = /^\d+$/.test(value(id)) ? Number(value(id)) : value(id);
  }
  const query = byId("query").value;
  if (stored()) {
    const corpus = byId("corpus").value;
    if (!corpus) throw new Error("no stored corpus is chosen");
    return { path: `v1/corpora/${encodeURIComponent(corpus)}/search`, body: { query, ...options }, documents: null, corpus };
  }
  const { documents } = readDocuments(byId("documents").value, byId("format").value);
  return { path: "v1/context", body: { query, documents, ...options }, documents, corpus: null };
}

async function run() {
  running?.abort();
  const controller = new AbortController();
  running = controller;
  account.begin();
  busy(true);
  try {
    const asking = request();
    const source = names(asking.documents);
    const ranking = new Ranking(source);
    reproduce(asking);
    const onEvent = (event, data) => {
      if (controller.signal.aborted) return;
      if (event === "stage") {
        account.stage(data);
        ranking.stage(data);
      } else if (event === "result") show(data, asking, ranking, source);
    };
    await stream(asking.path, { key: key(), body: asking.body, signal: controller.signal, onEvent });
  } catch (error) {
    if (running !== controller) return; // another request has taken its place
    if (error.name === "AbortError") account.say("Stopped.");
    else account.failed(error);
  } finally {
    if (running === controller) {
      running = null;
      busy(false);
    }
  }
}

function busy(now) {
  byId("stop").hidden = !now;
}

function show(answer, asking, ranking, source) {
  ranking.result(answer);
  account.result(answer, source.name);
  const explain = asking.documents && explainer(asking, ranking.candidates, key());
  const articles = answer.results.map((item, place) =>
    reading(item, place + 1, source.name(item.index, item.id), source.text(item.index), explain),
  );
  fill(byId("documents-kept"), ...(articles.length ? articles : [make("p", {}, "Nothing: no document is in the context.")]));
  byId("context").textContent = answer.context;
  byId("context-part").hidden = false;
}

/** Asks `/v1/explain` about one document, among those that were ranked with it. */
function explainer({ body }, candidates, givenKey) {
  return (index) => {
    const rivals = candidates.filter((other) => other !== index).slice(0, MOST_EXPLAINED - 1);
    const together = [index, ...rivals].sort((a, b) => a - b);
    // Without ids: those that the service counts out for the others could then be taken.
    const documents = together.map((position) => body.documents[position]).map((given) => (typeof given === "string" ? given : { text: given.text, title: given.title }));
    return ask("v1/explain", { key: givenKey, body: { query: body.query, documents, index: together.indexOf(index) } });
  };
}

/** Names and texts of the documents of a request; of a stored corpus only what the answer tells. */
function names(documents) {
  const text = (index) => {
    const document = documents?.[index];
    return document === undefined ? null : typeof document === "string" ? document : document.text;
  };
  const name = (index, id) => {
    const document = documents?.[index];
    if (document === undefined) return id;
    if (document.title) return document.id === undefined ? document.title : `${document.title} (${id})`;
    if (document.id !== undefined) return id;
    const points = Array.from(text(index));
    return points.length > SHOWN_NAME ? `${points.slice(0, SHOWN_NAME).join("")}…` : points.join("") || "(empty)";
  };
  return { text, name };
}

function reproduce({ path, body, corpus }) {
  const base = new URL(".", location.href).href;
  byId("curl").textContent = snippets.curl(new URL(path, base).href, body, key() !== "");
  byId("python").textContent = snippets.python(base.replace(/\/$/, ""), body, key() !== "", corpus);
  byId("snippets-part").hidden = false;
}

async function loadExample() {
  try {
    example ??= await ask("playground/example.json");
  } catch (error) {
    account.failed(error);
    return;
  }
  byId("query").value = example.queries[asked++ % example.queries.length];
  byId("documents").value = example.documents.map((document) => JSON.stringify(document)).join("\n");
  byId("format").value = "auto";
  if (!value("budget")) byId("budget").value = EXAMPLE_BUDGET;
  byId("form").elements.source.value = "pasted";
  chooseSource();
  count();
  await run();
}

function count() {
  const text = byId("documents").value;
  if (!text.trim()) {
    byId("count").textContent = "No documents yet";
    return;
  }
  try {
    const { documents, kind } = readDocuments(text, byId("format").value);
    byId("count").textContent = `${plural(documents.length, "document")}, ${SEPARATED[kind]}`;
  } catch (error) {
    byId("count").textContent = error.message;
  }
}

function chooseSource() {
  byId("pasted").hidden = stored();
  byId("stored").hidden = !stored();
  if (stored() && !byId("corpus").options.length) listCorpora();
}

async function listCorpora() {
  const note = byId("corpora-note");
  try {
    const { corpora } = await ask("v1/corpora", { key: key() });
    fill(byId("corpus"), ...corpora.map(({ name, documents }) => make("option", { value: name }, `${name} (${plural(documents, "document")})`)));
    note.textContent = corpora.length ? "Their texts stay with the service: the page shows what is kept." : "No corpus is stored: PUT /v1/corpora/{name} makes one.";
  } catch (error) {
    fill(byId("corpus"));
    note.textContent = error.message;
  }
}

async function copy(button) {
  const text = byId(button.dataset.copy).textContent;
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    byId("copied").textContent = "Copied.";
    button.textContent = "Copied";
  } catch {
    // Without https there is no clipboard: the text is selected, to be copied by hand.
    getSelection().selectAllChildren(byId(button.dataset.copy));
    byId("copied").textContent = "Selected: copy it with Ctrl+C or ⌘C.";
    button.textContent = "Selected";
  }
  setTimeout(() => {
    button.textContent = label;
    byId("copied").textContent = "";
  }, 2000);
}
