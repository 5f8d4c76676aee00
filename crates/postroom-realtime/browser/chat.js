
const TOKEN_REFUSED = 4006;
const CLOSE_REASONS = { 1012: "drain", 1013: "unavailable", 4000: "slow", 4001: "expired", 4002: "evicted", 4003: "lifetime", 4004: "gap" };
const MESSAGE_CHARS_MAX = 16_000; // the server takes 64 KiB
const RESEND_MS = 10_000; // without an answer, on a connection that is open
const PASSING = ["too_fast", "unavailable", "timeout", "failed"]; // errors after which the same message may succeed

// Connects to chat rooms by a WebSocket. After a gap each room goes on exactly after its last event. Messages that the server has not
// stored are sent again under the same id, so each is one message.
export function connectChat({ url, token, rooms: wanted = [], onEvent, onSend, onState, ...times }) {
  const address = new URL(url, document.baseURI);
  address.protocol = address.protocol.replace("http", "ws");
  const rooms = new Map(); // room id -> { after, isRejoining }
  const changes = new Map(); // "room/message" -> an edit or delete without an answer
  const counts = { received: 0, duplicates: 0, gaps: 0, connections: 0 };
  const state = { state: "connecting" };
  let way, member, socket, isClosed = false;
  for (const room of wanted) rooms.set(room.roomId ?? room, { after: room.after ?? null });

  function show(next) {
    Object.assign(state, next);
    call(onState, next);
  }

  function transmit(message) {
    if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
  }

  // One connection. What is sent before the server has checked the token waits there for it.
  function connect({ jwt, signal, cut, onOpen }) {
    const silence = watchSilence(cut, times.silenceMs);
    const own = (socket = new WebSocket(address));
    let end, isOpen = false;
    return new Promise((done) => {
      const finish = (how) => {
        silence.stop();
        own.onmessage = own.onclose = null;
        own.close();
        done(how);
      };
      const open = () => {
        isOpen = true;
        counts.connections += 1;
        onOpen();
      };
      signal.onabort = () => finish({ kind: "lost", reason: signal.reason });
      own.onopen = () => {
        transmit({ type: "auth", token: jwt });
        if (!rooms.size) open(); // nothing will confirm it
        for (const roomId of rooms.keys()) transmitJoin(roomId);
        resend(0);
      };
      own.onmessage = ({ data }) => {
        silence.heard();
        const message = parseJson(data) ?? {};
        if (message.event === "end") end = { kind: "lost", reason: message.reason, retryMs: message.retryMs };
        else if (!isOpen) open();
        take(message);
      };
      own.onclose = ({ code, reason: says }) => {
        const reason = end?.reason ?? CLOSE_REASONS[code] ?? (says || "network");
        if (code === TOKEN_REFUSED) finish({ kind: "token", reason: "token" });
        else finish(reason === "evicted" ? { kind: "evicted", reason } : end ?? { kind: "lost", reason });
      };
    });
  }

  function transmitJoin(roomId) {
    transmit({ type: "join", roomId, after: rooms.get(roomId).after });
  }

  function transmitSend(message) {
    const { roomId, clientMsgId, body } = message;
    message.sentAt = Date.now();
    transmit({ type: "send", roomId, clientMsgId, body });
  }

  function transmitChange(change) {
    change.sentAt = Date.now();
    transmit(change.message);
  }

  // Sends again what has had no answer for so long. On a new connection, also messages that are not stored yet.
  function resend(ms) {
    const isDue = ({ state, sentAt = 0 }) => ms === 0 || (state !== "sending" && Date.now() - sentAt >= ms);
    outbox.list().filter(isDue).forEach(transmitSend);
    [...changes.values()].filter(isDue).forEach(transmitChange);
  }

  // Messages of the server.

  function take(message) {
    const { event, roomId, seq } = message;
    if (event === "ping") transmit({ type: "pong" });
    else if (event === "expiring") renew();
    else if (event === "joined" || event === "reset") takeJoined(message);
    else if (event === "sent") takeSent(message);
    else if (event === "stored") outbox.store(roomId, seq);
    else if (event === "error") takeError(message);
    else if (message.data?.roomId !== undefined) takeRoomEvent(message);
  }

  // A room without a number begins here; after a `reset` the page loads the room once more.
  function takeJoined(message) {
    const room = rooms.get(message.roomId);
    if (!room) return;
    if (room.after === null || message.event === "reset") room.after = message.seq;
    room.isRejoining = false;
    call(onEvent, message);
  }

  function takeRoomEvent({ event, id, seq, data }) {
    const room = rooms.get(data.roomId);
    if (!room) return;
    if (room.after !== null && seq <= room.after) {
      counts.duplicates += 1;
    } else if (room.after !== null && seq > room.after + 1) {
      rejoin(data.roomId, room);
    } else {
      room.after = seq;
      counts.received += 1;
      settle(data, event, (change) => change.resolve({ roomId: data.roomId, seq, ...data }));
      call(onEvent, { event, roomId: data.roomId, id, seq, data });
    }
  }

  // The server sends what is missing, and this event once more.
  function rejoin(roomId, room) {
    if (room.isRejoining) return;
    counts.gaps += 1;
    room.isRejoining = true;
    transmit({ type: "leave", roomId });
    transmitJoin(roomId);
  }

  function takeSent(message) {
    if (message.clientMsgId) return outbox.allot(message);
    // A change that changes nothing makes no event; the answer names an older one.
    const room = rooms.get(message.roomId), isShown = !room || message.seq <= room.after;
    if (isShown && changes.get(keyOf(message))?.isOnly) settle(message, undefined, (change) => change.resolve(message));
    return undefined;
  }

  function takeError(message) {
    const { code, detail, clientMsgId } = message;
    if (clientMsgId && !PASSING.includes(code)) outbox.refuse(message);
    else if (!PASSING.includes(code)) settle(message, undefined, (change) => change.reject(Object.assign(new Error(detail), { code })));
    call(onEvent, message);
  }

  async function renew() {
    const jwt = await Promise.resolve(token({ isStale: true })).catch(() => undefined);
    if (jwt && (claims(jwt).sub ?? null) === member) transmit({ type: "refresh", token: jwt });
  }

  // Edits and deletes. The newest change of a message is sent again until an answer comes.

  const keyOf = ({ roomId, messageId }) => `${roomId}/${messageId}`;

  function change(message, event) {
    const earlier = changes.get(keyOf(message));
    earlier?.reject(new Error("a later change replaces this one"));
    return new Promise((resolve, reject) => {
      const latest = { message, event, resolve, reject, isOnly: !earlier };
      changes.set(keyOf(message), latest);
      transmitChange(latest);
    });
  }

  function settle(message, event, how) {
    const found = changes.get(keyOf(message));
    if (!found || (event && event !== found.event)) return;
    changes.delete(keyOf(message));
    how(found);
  }

  async function start() {
    member = await memberOf(token, () => isClosed);
    if (isClosed) return;
    outbox.open(`postroom.chat.outbox ${address} ${member}`);
    way = keepConnected({ token, connect, onState: show, renews: false, ...times });
  }

  const outbox = createOutbox((message) => call(onSend, message));
  const resending = setInterval(() => resend(RESEND_MS), RESEND_MS / 2);
  start();
  return {
    get state() { return state.state; },
    get counts() { return { ...counts }; },
    get outbox() { return outbox.list().map(({ sentAt, ...message }) => message); },
    after: (roomId) => rooms.get(roomId)?.after,
    send(roomId, body, clientMsgId = crypto.randomUUID()) {
      if (body.length > MESSAGE_CHARS_MAX) throw new Error(`a message has at most ${MESSAGE_CHARS_MAX} characters`);
      const message = outbox.add({ clientMsgId, roomId, body });
      transmitSend(message);
      return clientMsgId;
    },
    edit: (roomId, messageId, body) => change({ type: "edit", roomId, messageId, body }, "edited"),
    remove: (roomId, messageId) => change({ type: "delete", roomId, messageId }, "deleted"),
    join(roomId, after = null) {
      rooms.set(roomId, { after });
      transmitJoin(roomId);
    },
    leave(roomId) {
      if (rooms.delete(roomId)) transmit({ type: "leave", roomId });
    },
    reconnect: () => way?.reconnect(),
    close() {
      isClosed = true;
      clearInterval(resending);
      way?.close();
      show({ state: "closed" });
    },
  };
}
