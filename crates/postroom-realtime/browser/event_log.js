
const EVENTS_KEPT = 256;

// Where a tab stands in a stream, and the newest events, so that a tab that missed some gets them from another tab.
//
// An entry is { era, prev, seq, id, event, data }. The server does not show every event, so a hole in the numbers is no loss; an
// entry whose `prev` (the number before it) this tab does not have shows one. A `reset` begins an era: numbers may come again.
function createEventLog(start) {
  let entries = [];
  const log = {
    era: start && 1,
    seq: start?.seq ?? 0,
    id: start?.id,
    top: start?.seq ?? 0, // the newest number that the server has told
    unread: undefined,
    position: () => ({ era: log.era, seq: log.seq, id: log.id, top: log.top, unread: log.unread }),

    // The entry for an event of the server; nothing, if it is known.
    entry({ event, id, data }) {
      if (event === "reset") {
        const start = data?.top === 0 ? "0" : undefined; // no event has an id yet; the server takes a number, too
        return { era: Math.max((log.era ?? 0) + 1, Date.now()), prev: 0, seq: 0, id: id || start, event, data };
      }
      log.era ??= Date.now();
      const isKnown = Number.isInteger(data?.seq) && data.seq <= log.seq;
      return isKnown ? undefined : { era: log.era, prev: log.seq, seq: data?.seq, id, event, data };
    },

    // Whether an entry is the next one here, known, or follows others that are missing.
    judge(entry) {
      if (entry.era === log.era) return entry.prev > log.seq ? "gap" : entry.seq <= log.seq ? "known" : "next";
      if (entry.era < log.era) return "known";
      return entry.event === "reset" ? "next" : "gap";
    },

    add(entry) {
      Object.assign(log, { era: entry.era, seq: entry.seq ?? log.seq, id: entry.id || log.id });
      log.top = Math.max(log.top, entry.seq ?? 0, entry.data?.top ?? 0);
      log.unread = entry.data?.unread ?? log.unread;
      entries.push(entry);
      if (entries.length > EVENTS_KEPT) entries.shift();
    },

    // The entries after a position; nothing, if some of them are not kept any more.
    after({ era, seq }) {
      if (era === log.era && seq >= log.seq) return [];
      const first = entries.findIndex((entry) => entry.era === log.era && (era !== log.era || entry.seq > seq));
      const found = entries[first];
      const isWhole = found && (era === log.era ? found.prev <= seq : era !== undefined && found.event === "reset");
      return isWhole ? entries.slice(first) : undefined;
    },

    isBehind: (other) => other.era > (log.era ?? 0) || (other.era === log.era && other.seq > log.seq),

    // Goes on from the position of another tab, without the events before it.
    jump(position) {
      entries = [];
      Object.assign(log, position);
    },
  };
  return log;
}

// Takes the events of a connection: passes new ones on as entries, and answers how the connection ends, if an event ends it.
function createIntake({ log, counts, onEntry }) {
  return function take({ event, id, data: text }) {
    if (text === undefined) log.id = id || log.id; // the position alone
    if (text === undefined || event === "ping") return undefined;
    if (event === "expiring") return undefined; // the token is replaced in time, or after the end of the stream
    const data = parseJson(text) ?? text;
    if (event === "end") return { kind: "lost", reason: data.reason ?? "ended", retryMs: data.retryMs };
    if (event === "evicted") return { kind: "evicted", reason: "evicted" };
    const entry = log.entry({ event, id, data });
    if (!entry) {
      counts.duplicates += 1;
      return undefined;
    }
    log.add(entry);
    onEntry(entry);
    return undefined;
  };
}

// The event as the page gets it.
function shownEvent({ event, id, seq, data }) {
  return { event, id, seq: event === "reset" ? data?.top : seq, data };
}
