
// Receives the same by the browser's own EventSource, which can send no headers: each connection costs a ticket, which the server
// accepts once. EventSource would reconnect with the spent one, and fail for good.
export function openEventSource({ url, token, onEvent, onState, cursor, events = ["notification", "chat", "unread"], ...times }) {
  const address = new URL(url, document.baseURI);
  const log = createEventLog(cursor);
  const counts = { received: 0, duplicates: 0, connections: 0 };
  const take = createIntake({ log, counts, onEntry });
  let tabId = crypto.randomUUID();

  function onEntry(entry) {
    counts.received += 1;
    call(onEvent, shownEvent(entry));
  }

  async function askTicket(jwt, signal) {
    const ticketAddress = new URL(`${address.pathname}/ticket`, address);
    const headers = { accept: "application/json", authorization: `Bearer ${jwt}` };
    const response = await fetch(ticketAddress, { method: "POST", headers, signal });
    const end = refusal(response, "application/json");
    return end ? { end } : response.json();
  }

  async function connect({ jwt, signal, cut, onOpen }) {
    const silence = watchSilence(cut, times.silenceMs);
    let source;
    try {
      const { end, ticket } = await askTicket(jwt, signal);
      if (end) return end;
      const known = log.id ? { lastEventId: log.id } : {};
      for (const [name, value] of Object.entries({ ticket, tab: tabId, ...known })) address.searchParams.set(name, value);
      source = new EventSource(address);
      return await new Promise((done) => {
        signal.onabort = () => done({ kind: "lost", reason: signal.reason });
        source.onopen = () => { counts.connections += 1; onOpen(); };
        source.onerror = () => done({ kind: "lost", reason: "network" });
        for (const name of new Set([...events, "reset", "ping", "end", "evicted"])) {
          source.addEventListener(name, ({ data, lastEventId }) => {
            silence.heard();
            const end = take({ event: name, id: lastEventId, data });
            if (end?.kind === "evicted") tabId = crypto.randomUUID(); // the server refuses the evicted one for a while
            if (end) done(end);
          });
        }
      });
    } catch {
      return { kind: "lost", reason: signal.aborted ? signal.reason : "network" };
    } finally {
      silence.stop();
      source?.close();
    }
  }

  const way = keepConnected({ token, connect, onState: (state) => call(onState, state), ...times });
  return {
    get state() { return way.state; },
    get cursor() { return { id: log.id, seq: log.seq }; },
    get counts() { return { ...counts }; },
    reconnect: way.reconnect,
    close() {
      way.close();
      call(onState, { state: "closed" });
    },
  };
}
