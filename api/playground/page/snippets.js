// The request as a curl command and as Python. An API key is never written out: both read it from RAG_API_KEY.

/** A shell command that sends `body`, read from below the command: text needs no quoting and may be long. */
export function curl(url, body, hasKey) {
  const key = hasKey ? ` \\\n  -H "Authorization: Bearer $RAG_API_KEY"` : "";
  const data = JSON.stringify(body, null, 1);
  return `curl -s '${url}' \\\n  -H 'Content-Type: application/json'${key} \\\n  --data-binary @- <<'JSON'\n${data}\nJSON\n`;
}

/** Python that asks the same through `rag.client`; `corpus` is the name of a stored one, or null. */
export function python(base, body, hasKey, corpus) {
  const { query, documents, ...options } = body;
  const given = corpus === null ? [query, documents] : [corpus, query];
  const lines = [...given.map((value) => literal(value, 1)), ...Object.entries(options).map(([name, value]) => `${name}=${literal(value, 1)}`)];
  const call = `client.${corpus === null ? "context" : "search"}(\n${lines.map((line) => `        ${line},`).join("\n")}\n    )`;
  return [
    ...(hasKey ? ["import os", ""] : []),
    "from rag.client import Client",
    "",
    `with Client(${literal(base)}${hasKey ? `, os.environ["RAG_API_KEY"]` : ""}) as client:`,
    `    answer = ${call}`,
    "print(answer.context)",
    "for item in answer.results:",
    "    print(item.rank, item.id, item.score, item.spans)",
    "",
  ].join("\n");
}

/** A JSON value as a Python literal. JSON's escapes are Python's too, but for a lone surrogate, which no request has. */
function literal(value, depth = 0) {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const pad = "    ".repeat(depth + 1);
  const parts = Array.isArray(value)
    ? value.map((item) => literal(item, depth + 1))
    : Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${literal(item, depth + 1)}`);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  if (!Array.isArray(value) || !parts.length) return `${open}${parts.join(", ")}${close}`;
  return `${open}\n${parts.map((part) => `    ${pad}${part},`).join("\n")}\n${pad}${close}`;
}
