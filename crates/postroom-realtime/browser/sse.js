
// A reader of event streams, as the HTML standard describes them: https://html.spec.whatwg.org/multipage/server-sent-events.html
function createEventReader({ onEvent, onRetry }) {
  const decoder = new TextDecoder(); // keeps the beginning of a letter that two chunks share, and drops a byte order mark
  let rest = "", endedWithCr = false, name = "", data = [], id = "";

  function readField(line) {
    const [, field, value] = /^([^:]*)(?:: ?([^]*))?$/.exec(line);
    if (field === "data") data.push(value ?? "");
    else if (field === "event") name = value ?? "";
    else if (field === "id" && !value?.includes("\0")) id = value ?? "";
    else if (field === "retry" && /^[0-9]+$/.test(value)) onRetry(Number(value));
  }

  // A block without data sets the id, and is no event.
  function finishBlock() {
    const event = { event: name || "message", id, data: data.length ? data.join("\n") : undefined };
    [name, data] = ["", []];
    onEvent(event);
  }

  return function read(bytes) {
    let text = decoder.decode(bytes, { stream: true });
    if (!text) return;
    if (endedWithCr && text[0] === "\n") text = text.slice(1);
    endedWithCr = text ? text.endsWith("\r") : false;
    const lines = (rest + text).split(/\r\n|\r|\n/);
    rest = lines.pop();
    for (const line of lines) line ? readField(line) : finishBlock();
  };
}

async function* chunks(body) {
  const reader = body.getReader();
  try {
    for (let part; !(part = await reader.read()).done;) yield part.value;
  } finally {
    reader.cancel().catch(() => {});
  }
}
