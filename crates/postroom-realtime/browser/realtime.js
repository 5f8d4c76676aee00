// Realtime streams in a browser: notifications by server-sent events, chat by WebSocket. An ES module without dependencies, served
// at /realtime/client.js as the files of this folder, one after the other. docs/guide/realtime-browser.md describes it.

const SILENCE_MS = 45_000; // the server pings every 20 s
const CONNECT_MS = 20_000; // from a request to the first bytes
const BACKOFF_MAX_MS = 30_000;
const RENEW_BEFORE_MS = 30_000; // a token is replaced this long before it expires
const TIMER_MAX_MS = 2 ** 31 - 1;

// Connects, and connects again until an answer is final. `connect` opens one connection and resolves when it has ended, with
// { kind: "lost" | "token" | "evicted" | "refused", reason, retryMs }.
function keepConnected({ token, connect, onState, final, renews = true, backoffMaxMs = BACKOFF_MAX_MS }) {
  let isClosed = false, isAsked = false, failures = 0, retryMs, current, wake;

  function show(state, more = {}) {
    way.state = state;
    onState({ state, ...more });
  }

  // Waits for this time or, without one, for the page.
  function rest(ms) {
    return isAsked || isClosed || new Promise((done) => {
      const timer = ms === undefined ? undefined : setTimeout(done, Math.min(ms, TIMER_MAX_MS));
      wake = () => { clearTimeout(timer); done(); };
    });
  }

  // The server says when the first attempt after an open connection may come: it spreads its clients. Further attempts come more
  // and more rarely, at random times.
  function delay(end) {
    const jitter = Math.random() * Math.min(1000 * 2 ** failures, backoffMaxMs);
    const known = end.retryMs ?? retryMs;
    return (known ?? 0) + (failures || known === undefined ? jitter : 0);
  }

  async function attempt(isStale) {
    let jwt;
    try {
      jwt = await token?.({ isStale });
    } catch {
      return { kind: "lost", reason: "token" };
    }
    if (token && !jwt) return { kind: "refused", reason: "no_token" };
    current = new AbortController();
    if (isClosed) return { kind: "lost", reason: "closed" };
    const timer = renews && renewTimer(jwt, () => cut("renew"));
    try {
      return await connect({ jwt, signal: current.signal, cut, onOpen, onRetry: (ms) => { retryMs = ms; } });
    } finally {
      clearTimeout(timer);
      current = undefined;
    }
  }

  function onOpen(more) {
    failures = 0;
    way.opened += 1;
    show("open", more);
  }

  async function run() {
    if (final) {
      show(final.state, { reason: final.reason });
      await rest();
    }
    for (let isStale = false; !isClosed;) {
      isAsked = false;
      show("connecting");
      const { opened } = way;
      const end = await attempt(isStale);
      if (isClosed) return;
      const wasOpen = way.opened > opened, hadNewToken = isStale && !wasOpen;
      isStale = ["token", "renew", "expired"].includes(end.reason);
      failures += wasOpen ? 0 : 1;
      if (end.kind === "evicted" || end.kind === "refused") {
        show(end.kind, { reason: end.reason });
        await rest();
      } else if (!(isStale && !hadNewToken && end.reason !== "expired")) {
        const ms = delay(end);
        if (!isAsked) show("waiting", { reason: end.reason, retryAt: Date.now() + ms });
        await rest(ms);
      }
    }
  }

  const cut = (reason) => current?.abort(reason);
  const onOffline = () => cut("offline");
  const onOnline = () => way.state === "waiting" && wake?.();
  const onVisible = () => document.visibilityState === "visible" && onOnline();
  const way = {
    state: "connecting",
    opened: 0,
    // Connects now: cuts a connection, ends a wait, leaves a final state.
    reconnect() {
      [isAsked, failures] = [true, 0];
      cut("asked");
      wake?.();
    },
    close() {
      isClosed = true;
      removeEventListener("offline", onOffline);
      removeEventListener("online", onOnline);
      document.removeEventListener("visibilitychange", onVisible);
      cut("closed");
      wake?.();
    },
  };
  addEventListener("offline", onOffline);
  addEventListener("online", onOnline);
  document.addEventListener("visibilitychange", onVisible);
  run();
  return way;
}

// Calls back before a token expires. If it has expired by the clock of this machine, the server decides.
function renewTimer(jwt, callback) {
  const left = claims(jwt).exp * 1000 - Date.now();
  const ms = left - Math.min(RENEW_BEFORE_MS, left / 5);
  return ms > 0 ? setTimeout(callback, Math.min(ms, TIMER_MAX_MS)) : undefined;
}

// Cuts a connection when nothing has come for too long. Timers stand still while a machine sleeps; its clock does not.
function watchSilence(cut, silenceMs = SILENCE_MS) {
  let heardAt = Date.now(), limit = Math.min(CONNECT_MS, silenceMs);
  const watching = setInterval(() => Date.now() - heardAt >= limit && cut("silent"), Math.min(1000, silenceMs / 4));
  return {
    heard() { [heardAt, limit] = [Date.now(), silenceMs]; },
    stop: () => clearInterval(watching),
  };
}

// How a connection ends that an answer refuses; nothing, if the answer is as it should be.
function refusal({ ok, status, headers }, contentType) {
  if (status === 204) return { kind: "evicted", reason: "evicted" };
  if (status === 401) return { kind: "token", reason: "token" };
  const isBusy = status === 408 || status === 429 || status >= 500;
  const afterMs = Number(headers.get("retry-after")) * 1000;
  if (isBusy) return { kind: "lost", reason: `status_${status}`, retryMs: afterMs ? afterMs * (1 + Math.random()) : undefined };
  if (!ok) return { kind: "refused", reason: `status_${status}` };
  return headers.get("content-type")?.startsWith(contentType) ? undefined : { kind: "refused", reason: "content_type" };
}

// The claims of a JWT; nothing of another token.
function claims(jwt) {
  try {
    const payload = jwt.split(".")[1].replaceAll("-", "+").replaceAll("_", "/");
    const bytes = Uint8Array.from(atob(payload), (char) => char.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(bytes)) ?? {};
  } catch {
    return {};
  }
}

// The member that a token names: null, if the token does not say it.
async function memberOf(token, isClosed) {
  for (let failures = 0; !isClosed(); failures++) {
    try {
      return claims(await token({ isStale: false })).sub ?? null;
    } catch {
      await new Promise((done) => setTimeout(done, Math.random() * Math.min(1000 * 2 ** failures, BACKOFF_MAX_MS)));
    }
  }
  return null;
}

// Calls a function of the page. A mistake in it is reported, and ends no connection.
function call(callback, ...values) {
  try {
    callback?.(...values);
  } catch (error) {
    reportError(error);
  }
}

function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
