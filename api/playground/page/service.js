// The service: requests, server-sent events, errors. Nothing here touches the page.

/** What the service, or the way to it, answered instead of a result. */
export class ServiceError extends Error {
  constructor(message, { status, code, param, request_id } = {}) {
    super(message);
    Object.assign(this, { status, code, param, requestId: request_id });
  }
}

const headers = (key, more) => ({ ...more, ...(key ? { Authorization: `Bearer ${key}` } : {}) });

/** GET or, with a body, POST; the JSON of the answer. */
export async function ask(path, { key, body, signal } = {}) {
  const response = await send(path, key, body, "application/json", signal);
  return response.json();
}

/** POST and call `onEvent(name, data)` for every event, until the last; an `error` event is thrown. */
export async function stream(path, { key, body, signal, onEvent }) {
  const response = await send(path, key, body, "text/event-stream", signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let ended = false;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const [name, data] = event(block);
      if (name === "error") throw new ServiceError(data.error.message, data.error);
      ended ||= name === "result";
      if (name) onEvent(name, data);
    }
  }
  if (!ended) throw new ServiceError("the connection ended before the answer was complete");
}

async function send(path, key, body, accept, signal) {
  const options = body === undefined
    ? { headers: headers(key, { Accept: accept }), signal }
    : {
        method: "POST",
        headers: headers(key, { Accept: accept, "Content-Type": "application/json" }),
        body: JSON.stringify(body),
        signal,
      };
  let response;
  try {
    response = await fetch(path, { ...options, cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServiceError(`the service cannot be reached: ${error.message}`);
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

async function refusal(response) {
  try {
    const { error } = await response.json();
    return new ServiceError(error.message, { ...error, status: response.status });
  } catch {
    return new ServiceError(`the answer has status ${response.status} and no message`, { status: response.status });
  }
}

function event(block) {
  let name = "";
  let data = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  return [name, data ? JSON.parse(data) : null];
}
