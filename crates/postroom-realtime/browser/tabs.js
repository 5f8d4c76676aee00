
const LEADER_SILENT_MS = 15_000; // then a tab asks whether the leader is there
const LEADER_ANSWER_MS = 5_000; // and takes the lead if there is no answer

// The tabs of an origin that share something under a name; one of them leads. When its tab is closed or frozen, the next tab leads.
// If it hangs, another tab takes the lead. A tab leads alone if it has no name, or no Web Locks or BroadcastChannel (no HTTPS).
function joinTabs(name, handlers) {
  const { lead, follow, receive, leaderSilentMs = LEADER_SILENT_MS, leaderAnswerMs = LEADER_ANSWER_MS } = handlers;
  const isAlone = !name || !navigator.locks || !("BroadcastChannel" in globalThis);
  const channel = isAlone ? undefined : new BroadcastChannel(name);
  let queued, release, isAway = false, seenAt = Date.now(), askedAt = 0;

  // Waits for the lead, or takes it; leads until it is released or taken.
  async function stand(steal = false) {
    queued?.abort();
    const mine = (queued = new AbortController());
    const begin = () => new Promise((done) => {
      queued = undefined;
      release = done;
      tabs.isLeader = true;
      lead();
    });
    try {
      await navigator.locks.request(name, steal ? { steal } : { signal: mine.signal }, begin);
    } catch {
      // Withdrawn, or taken by another tab.
    }
    if (mine.signal.aborted) return;
    yieldLead();
    if (!isAway) stand();
  }

  function yieldLead() {
    if (!tabs.isLeader) return;
    tabs.isLeader = false;
    [seenAt, askedAt] = [Date.now(), 0];
    follow();
  }

  function leave() {
    if (isAlone || isAway) return;
    isAway = true;
    queued?.abort();
    yieldLead();
    release?.();
  }

  function comeBack() {
    if (isAlone || !isAway) return;
    isAway = false;
    stand();
    tabs.send({ kind: "ask" });
  }

  // A whole machine that slept wakes its tabs together, so the leader is asked before it is taken for dead.
  function watch() {
    const now = Date.now();
    if (tabs.isLeader || isAway) return;
    if (askedAt && now - askedAt >= leaderAnswerMs) {
      askedAt = 0;
      stand(true);
    } else if (!askedAt && now - seenAt >= leaderSilentMs) {
      askedAt = now;
      tabs.send({ kind: "ask" });
    }
  }

  const watching = channel && setInterval(watch, leaderAnswerMs);
  const events = [[document, "freeze", leave], [document, "resume", comeBack], [globalThis, "pagehide", leave],
    [globalThis, "pageshow", comeBack], [document, "visibilitychange", watch]];
  const tabs = {
    id: crypto.randomUUID(),
    isLeader: false,
    isAlone,
    send: (message) => channel?.postMessage({ ...message, from: tabs.id, isLeader: tabs.isLeader }),
    // Whether other tabs wait for the lead.
    async hasOthers() {
      const { pending = [] } = isAlone ? {} : await navigator.locks.query();
      return pending.some((lock) => lock.name === name);
    },
    close() {
      leave();
      clearInterval(watching);
      for (const [target, event, listener] of events) target.removeEventListener(event, listener);
      channel?.close();
    },
  };
  for (const [target, event, listener] of events) target.addEventListener(event, listener);
  if (isAlone) {
    tabs.isLeader = true;
    queueMicrotask(lead);
    return tabs;
  }
  channel.onmessage = ({ data }) => {
    if (data.isLeader) [seenAt, askedAt] = [Date.now(), 0];
    if (!isAway) receive(data);
  };
  stand();
  return tabs;
}
