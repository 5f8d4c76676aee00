
const OTHERS_MS = 200; // for other tabs to say where they stand
const FINAL = ["evicted", "refused"];

// Receives the notifications of a member, by one connection for all tabs of this origin. After a gap it goes on exactly after the
// last event.
export function connectNotifications({ url, token, onEvent, onState, cursor, share = true, ...times }) {
  const address = new URL(url, document.baseURI);
  const log = createEventLog(cursor);
  const counts = { received: 0, duplicates: 0, connections: 0 };
  const take = createIntake({ log, counts, onEntry });
  let tabs, way, member, tabId = crypto.randomUUID(), shown = { state: "connecting" }, isClosed = false;
  let isBehind = false; // waits for events that other tabs have
  let leads = 0, positions; // of other tabs, while this one begins to lead

  function show(state) {
    shown = state;
    if (tabs?.isLeader) tabs.send({ kind: "here", shown, position: log.position() });
    call(onState, { ...state, isLeader: tabs?.isLeader ?? false });
  }

  function deliver(entry) {
    counts.received += 1;
    call(onEvent, shownEvent(entry));
  }

  // The page loads once more what it shows.
  function resetTo(position, reason) {
    log.jump(position);
    deliver({ event: "reset", id: position.id, data: { reason, top: position.top, unread: position.unread } });
  }

  // The tab that leads has the connection.

  async function lead() {
    const mine = ++leads;
    if (await tabs.hasOthers()) {
      positions = [];
      tabs.send({ kind: "lead", position: log.position() });
      await new Promise((done) => setTimeout(done, OTHERS_MS));
      catchUpWith(positions);
    }
    if (mine !== leads || !tabs.isLeader || isClosed) return;
    const final = FINAL.includes(shown.state) ? shown : undefined;
    way = keepConnected({ token: ownToken, connect, onState: show, final, ...times });
  }

  // Goes on where the tab that has most events stands. If that tab does not have all that are missing here, the server does.
  function catchUpWith(others) {
    const [best] = others.sort((a, b) => b.position.era - a.position.era || b.position.seq - a.position.seq);
    if (!best) return;
    if (FINAL.includes(best.shown.state)) shown = best.shown;
    if (!log.isBehind(best.position)) return;
    if (best.entries) best.entries.forEach(accept);
    else if (best.position.era !== log.era) resetTo(best.position, log.era ? "missed" : "joined");
  }

  // The token of another member would show its notifications to the tabs of this one.
  async function ownToken(how) {
    const jwt = await token(how);
    return (claims(jwt).sub ?? null) === member ? jwt : undefined;
  }

  async function connect({ jwt, signal, cut, onOpen, onRetry }) {
    address.searchParams.set("tab", tabId);
    const headers = { accept: "text/event-stream", authorization: `Bearer ${jwt}` };
    if (log.id) headers["last-event-id"] = log.id;
    const silence = watchSilence(cut, times.silenceMs);
    let end;
    try {
      const response = await fetch(address, { headers, signal, cache: "no-store" });
      end = refusal(response, "text/event-stream");
      if (!end) {
        counts.connections += 1;
        onOpen({ connectionId: response.headers.get("x-connection-id") });
        const read = createEventReader({ onRetry, onEvent: (event) => { end ??= take(event); } });
        for await (const bytes of chunks(response.body)) {
          silence.heard();
          read(bytes);
          if (end) break;
        }
      }
    } catch {
      end ??= { kind: "lost", reason: signal.aborted ? signal.reason : "network" };
    }
    silence.stop();
    if (end?.kind === "evicted") tabId = crypto.randomUUID(); // the server refuses the evicted one for a while
    return end ?? { kind: "lost", reason: "ended" };
  }

  function onEntry(entry) {
    tabs.send({ kind: "entry", entry });
    deliver(entry);
  }

  function leaderReceives(message) {
    const { kind, from: to } = message;
    if (kind === "ask") tabs.send({ kind: "here", to, shown, position: log.position() });
    else if (kind === "missed") tabs.send({ kind: "entries", to, entries: log.after(message.position), position: log.position() });
    else if (kind === "position") positions?.push(message);
    else if (kind === "reconnect") way?.reconnect();
  }

  // The other tabs hear from the leader.

  function follow() {
    way?.close();
    way = undefined;
  }

  function followerReceives({ kind, from, shown: state, position, entry, entries }) {
    if (kind === "lead") {
      tabs.send({ kind: "position", to: from, shown, position: log.position(), entries: log.after(position) });
    } else if (kind === "entry") {
      // A tab that has just joined hears first where the others stand.
      if (log.era || entry.event === "reset") accept(entry);
    } else if (kind === "here") {
      isBehind = false;
      if (!log.era && position.era) resetTo(position, "joined");
      else if (log.isBehind(position)) askForMissed();
      if (state.state !== shown.state || state.retryAt !== shown.retryAt) show(state);
    } else if (kind === "entries") {
      isBehind = false;
      if (entries) entries.forEach(accept);
      else if (log.isBehind(position)) resetTo(position, "missed");
    }
  }

  function accept(entry) {
    const verdict = log.judge(entry);
    if (verdict === "gap") return askForMissed();
    if (verdict === "known") return void (counts.duplicates += 1);
    log.add(entry);
    return deliver(entry);
  }

  function askForMissed() {
    if (!isBehind) tabs.send({ kind: "missed", position: log.position() });
    isBehind = true;
  }

  function receive(message) {
    if (message.to && message.to !== tabs.id) return;
    if (tabs.isLeader) leaderReceives(message);
    else followerReceives(message);
  }

  // Tabs share a connection only if their tokens name the same member.
  async function start() {
    member = await memberOf(token, () => isClosed);
    if (isClosed) return;
    const name = share && member ? `postroom.realtime ${address} ${member}` : undefined;
    tabs = joinTabs(name, { lead, follow, receive, ...times });
    tabs.send({ kind: "ask" });
  }

  start();
  return {
    get state() { return shown.state; },
    get isLeader() { return tabs?.isLeader ?? false; },
    get cursor() { return { id: log.id, seq: log.seq }; },
    get counts() { return { ...counts }; },
    reconnect() {
      if (tabs?.isLeader) way?.reconnect();
      else tabs?.send({ kind: "reconnect" });
    },
    close() {
      isClosed = true;
      follow();
      tabs?.close();
      show({ state: "closed" });
    },
  };
}
