// Sends activity events of a web page. An event stays in the browser until the server has answered for it.
const PREFIX = "postroom.activity.";
const SESSION_MS = 30 * 60_000, BACKOFF_MAX_MS = 5 * 60_000, KEEPALIVE_BYTES = 60_000;

export function createActivity({
  endpoint = new URL("events", import.meta.url).href,
  batchSize = 20, // events in a request
  intervalMs = 5_000, // between two requests
  queueMax = 1_000, // events that wait; the oldest are dropped
  token, // a function that returns the token of a member, or nothing
  context = {}, // fields of every event: platform, appVersion, locale, ...
  onDrop = () => {}, // called with an eventId and the reason
} = {}) {
  const store = openStore();
  let timer, bearer, isSending = false, failures = 0, notBefore = 0, size = batchSize;

  const waiting = () => store.keys("event.").sort(); // ids begin with their time

  function drop(key, reason) {
    store.remove(key);
    onDrop(key.slice(6), reason);
  }

  function schedule(ms) {
    timer ??= setTimeout(() => { timer = undefined; flush(); }, ms);
  }

  function backOff(response) {
    const wanted = Number(response?.headers.get("retry-after")) * 1000 || 0;
    const delay = wanted + Math.random() * Math.min(1000 * 2 ** failures++, BACKOFF_MAX_MS);
    notBefore = Date.now() + delay;
    clearTimeout(timer);
    timer = undefined;
    schedule(delay);
  }

  // Sends events; returns whether the next ones may follow.
  async function send(keys, keepalive) {
    let response;
    try {
      const body = `{"events":[${keys.map((key) => store.get(key)).filter(Boolean)}]}`;
      if (keepalive && !("keepalive" in Request.prototype)) return navigator.sendBeacon(endpoint, body);
      if (!keepalive) bearer = await token?.(); // a page that goes away cannot wait for one
      const headers = bearer ? { authorization: `Bearer ${bearer}` } : {};
      response = await fetch(endpoint, { method: "POST", headers, body, keepalive });
      if ([400, 413, 415, 422].includes(response.status)) {
        if (keys.length === 1) drop(keys[0], response.status);
        size = 1; // find the event that is refused
        return true;
      }
      if (!response.ok) throw response;
      const { results } = await response.json();
      for (const key of keys) {
        const { result, details } = results[key.slice(6)] ?? { result: "drop", details: "no_answer" };
        if (result === "drop") drop(key, details);
        else if (result !== "retry") store.remove(key);
      }
      if (response.headers.has("retry-after")) throw response;
      failures = 0;
      size = Math.min(size * 2, batchSize);
      return true;
    } catch {
      backOff(response);
      return false;
    }
  }

  async function sendAll(lock) {
    if (lock === null) return schedule(intervalMs); // another tab sends for all
    for (let keys; (keys = waiting().slice(0, size)).length && (await send(keys, false)); );
  }

  async function flush() {
    if (isSending) return;
    if (Date.now() < notBefore) return schedule(notBefore - Date.now());
    isSending = true;
    const locks = navigator.locks;
    try {
      await (locks ? locks.request(PREFIX, { ifAvailable: true }, sendAll) : sendAll());
    } finally {
      isSending = false;
    }
  }

  // The page may go away: what has no answer then is sent again by the next page.
  function hide() {
    let bytes = 0;
    const fits = (key) => (bytes += new Blob([store.get(key)]).size + 1) < KEEPALIVE_BYTES;
    const keys = waiting().slice(0, batchSize).filter(fits);
    if (keys.length) send(keys, true);
  }

  function anonymousId() {
    const id = store.get("anonymousId") ?? uuid();
    store.set("anonymousId", id);
    return id;
  }

  function sessionId() {
    const [id, seen] = (store.get("session") ?? "").split(" ");
    const current = id && Date.now() - seen < SESSION_MS ? id : uuid();
    store.set("session", `${current} ${Date.now()}`);
    return current;
  }

  function track(eventName, properties = {}, eventVersion = "v1") {
    const eventId = uuid(), occurredAt = new Date().toISOString();
    const who = { anonymousId: anonymousId(), sessionId: sessionId() };
    const event = { ...context, eventId, eventName, eventVersion, occurredAt, ...who, properties };
    store.set("event." + eventId, JSON.stringify(event));
    const keys = waiting();
    keys.slice(0, Math.max(0, keys.length - queueMax)).forEach((key) => drop(key, "queue_full"));
    if (keys.length >= batchSize) flush();
    else schedule(intervalMs);
    return eventId;
  }

  addEventListener("pagehide", hide);
  document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && hide());
  addEventListener("online", () => { notBefore = failures = 0; flush(); });
  schedule(Math.random() * 1000); // events of an earlier page
  return { track, flush, anonymousId, sessionId };
}

// Local storage, one entry for each event, so that tabs do not overwrite each other; memory where the browser refuses storage.
function openStore() {
  const memory = new Map();
  let disk;
  try { disk = localStorage; } catch {}
  const names = () => [...memory.keys(), ...Object.keys(disk ?? {})];
  return {
    get: (key) => memory.get(PREFIX + key) ?? disk?.getItem(PREFIX + key),
    set(key, value) {
      try { disk.setItem(PREFIX + key, value); } catch { memory.set(PREFIX + key, value); }
    },
    remove(key) {
      memory.delete(PREFIX + key);
      disk?.removeItem(PREFIX + key);
    },
    keys: (kind) => names().filter((name) => name.startsWith(PREFIX + kind)).map((name) => name.slice(PREFIX.length)),
  };
}

// UUID version 7: the time, then random bits.
function uuid() {
  const bytes = crypto.getRandomValues(new Uint8Array(16)), now = Date.now();
  for (let i = 0; i < 6; i++) bytes[i] = now / 256 ** (5 - i);
  bytes[6] = 0x70 | (bytes[6] & 15);
  bytes[8] = 0x80 | (bytes[8] & 63);
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
