// A member on this page: the two connections of the browser client, and everything that came through them.

import { connectChat, connectNotifications } from "/realtime/client.js";
import { apiOf, tokenOf } from "./api.js";
import { ranges } from "./page.js";
import { createReceived } from "./received.js";

const STREAM = "/api/notifications/stream";
const QUIET_MS = 900; // nothing came for this long: the gap is made up for
const INBOX_SHOWN = 30;
const MESSAGES_SHOWN = 60;
const ENTRIES_AGAIN = 30;

export function createMember({ id, name }, { tell, onServer }) {
  const api = apiOf(id);
  const token = (how) => tokenOf(id, how);
  const listeners = new Map();
  const repairs = [];
  let stream, chat, outage, reportTimer, repairTimer, heardAt = 0;

  const me = {
    id, name, api,
    state: { state: "connecting" }, isOnline: true, isMuted: false, isFollowing: false, connectionId: undefined,
    unread: 0, inbox: [], messages: new Map(), pending: new Map(), devices: [], connections: [],
    stream: createReceived(), room: createReceived(), roomId: undefined,
    on(kind, listener) {
      listeners.set(kind, [...(listeners.get(kind) ?? []), listener]);
    },
  };

  const changed = (kind, value) => listeners.get(kind)?.forEach((listener) => listener(value));
  const note = (key, values, tone) => tell({ member: me, key, values, tone });

  // The stream of notifications.

  function openStream(cursor) {
    stream = connectNotifications({ url: STREAM, token, cursor, onEvent: takeEvent, onState: takeState });
  }

  function takeState(state) {
    const before = me.state;
    me.state = state;
    if (state.connectionId) me.connectionId = state.connectionId;
    if (state.state === "open") cameBack(state);
    else if (before.state === "open") wentAway(state);
    if (state.state === "evicted" && before.state !== "evicted") note("logEvicted", {}, "bad");
    changed("state");
    setTimeout(loadConnections, 250);
  }

  function wentAway({ state, reason }) {
    if (state === "connecting" || outage) return;
    outage = { at: Date.now() };
    if (state === "closed") note("logOffline", {}, "bad");
    else if (state === "waiting" && reason !== "closed") note("logLost", {}, "bad");
  }

  function cameBack({ isLeader }) {
    if (outage) return reportSoon();
    if (!me.hasOpened) note(isLeader ? "logOpen" : "logShared", {}, "good");
    me.hasOpened = true;
    return undefined;
  }

  async function takeEvent({ event, seq, data }) {
    heardAt = Date.now();
    if (data?.unread !== undefined) setUnread(data.unread);
    if (event === "reset") {
      if (me.stream.first !== undefined) note("logReset", {}, "");
      me.stream.begin(data.top ?? 0);
      return loadInbox();
    }
    if (me.stream.arrive(seq) && !outage) repaired(seq);
    if (event === "notification") addNotification({ ...data, isRead: false }, seq >= me.stream.first);
    if (outage?.isReporting) reportSoon();
    return undefined;
  }

  function setUnread(unread) {
    me.unread = unread;
    changed("unread");
  }

  function addNotification(notification, isLive) {
    if (me.inbox.some((known) => known.id === notification.id)) return;
    me.inbox = [notification, ...me.inbox].sort((a, b) => b.id - a.id).slice(0, INBOX_SHOWN);
    changed("inbox");
    if (isLive) changed("toast", notification);
  }

  async function loadInbox() {
    const [{ notifications }, { unread }, { muted }] = await Promise.all(
      ["", "/unread", "/settings"].map((part) => api.get(`/api/notifications${part}`)));
    notifications.map((known) => ({ ...known, isRead: known.readAt !== null })).forEach((known) => addNotification(known, false));
    setUnread(unread);
    me.isMuted = muted;
    changed("state");
  }

  async function loadConnections() {
    const { connections } = await api.get("/api/notifications/connections").catch(() => ({ connections: me.connections }));
    me.connections = connections;
    changed("connections");
  }

  // Chat.

  async function openChat() {
    const path = `/api/chat/rooms/${me.roomId}`;
    const [{ messages }, { seq }] = await Promise.all([api.get(`${path}/messages?limit=${MESSAGES_SHOWN}`), api.get(path)]);
    messages.forEach((message) => showMessage(message));
    // The history may be behind the room, so the newest entries come once more by the stream.
    const after = Math.max(0, seq - ENTRIES_AGAIN);
    me.room.begin(after);
    connectRoom(after);
  }

  function connectRoom(after) {
    const rooms = [{ roomId: me.roomId, after }];
    chat = connectChat({ url: "/api/chat/ws", token, rooms, onEvent: takeRoomEvent, onSend: takeSend, onState: takeChatState });
  }

  function takeChatState({ state, reason }) {
    if (state === "waiting" && !outage) wentAway({ state, reason });
    if (state === "open" && outage) reportSoon();
  }

  function takeRoomEvent({ event, seq, data, code, detail, clientMsgId }) {
    heardAt = Date.now();
    if (event === "error" && !clientMsgId) note("logFailed", { what: code, why: detail }, "bad");
    if (!data) return;
    me.room.arrive(seq);
    changed("messages");
    const { messageId } = data;
    const known = me.messages.get(messageId);
    if (event === "message") showMessage({ ...data, seq });
    else if (known && event === "edited") showMessage({ ...known, body: data.body, isEdited: true });
    else if (known && event === "deleted") showMessage({ ...known, body: null, isDeleted: true });
    if (outage?.isReporting) reportSoon();
  }

  function showMessage(message) {
    const { messageId, clientMsgId } = message;
    const pending = me.pending.get(clientMsgId);
    me.messages.set(messageId, { isEdited: Boolean(message.editedAt), tick: pending ? pending.state : "stored", ...me.messages.get(messageId), ...message });
    changed("messages");
  }

  function takeSend(message) {
    const { clientMsgId, messageId, state } = message;
    if (state === "stored") me.pending.delete(clientMsgId);
    else me.pending.set(clientMsgId, message);
    const shown = me.messages.get(messageId) ?? [...me.messages.values()].find((known) => known.clientMsgId === clientMsgId);
    if (shown) shown.tick = state;
    changed("messages");
  }

  // Numbers that were lost on their way, and came although the connection never broke.
  function repaired(seq) {
    repairs.push(seq);
    clearTimeout(repairTimer);
    repairTimer = setTimeout(() => note("logRepaired", { numbers: ranges(repairs.splice(0)) }, "good"), QUIET_MS);
  }

  // A gap, and what came after it.

  function reportSoon() {
    outage.isReporting = true;
    clearTimeout(reportTimer);
    reportTimer = setTimeout(report, QUIET_MS);
  }

  async function report() {
    if (me.state.state !== "open" || Date.now() - heardAt < QUIET_MS / 2) return reportSoon();
    const { at } = outage;
    outage = undefined;
    await onServer();
    const parts = { stream: me.stream.arrivedSince(at), chat: me.room.arrivedSince(at) };
    const gaps = me.stream.missing().length + me.room.missing().length;
    const duplicates = me.stream.duplicates + me.room.duplicates;
    return tell({ member: me, key: "logResumed", values: { s: ((Date.now() - at) / 1000).toFixed(1) }, tone: "good", proof: { ...parts, gaps, duplicates } });
  }

  Object.assign(me, {
    async start(roomId) {
      me.roomId = roomId;
      openStream();
      await openChat();
    },
    // As if the network were away: both connections end, and go on later where they were.
    goOffline() {
      if (!me.isOnline) return;
      me.isOnline = false;
      me.left = { cursor: stream.cursor, after: chat.after(me.roomId), chat };
      stream.close();
      chat.close();
      changed("state");
    },
    goOnline() {
      if (me.isOnline) return;
      me.isOnline = true;
      openStream(me.left.cursor);
      connectRoom(me.left.after);
    },
    reconnect: () => stream.reconnect(),
    say: (body) => chat.send(me.roomId, body),
    edit: (messageId, body) => chat.edit(me.roomId, messageId, body).catch(() => {}),
    takeBack: (messageId) => chat.remove(me.roomId, messageId).catch(() => {}),
    async setMuted(isMuted) {
      await api.put("/api/notifications/settings", { muted: isMuted });
      me.isMuted = isMuted;
      note(isMuted ? "logMuted" : "logUnmuted", {}, "");
      changed("state");
    },
    async follow(other) {
      me.isFollowing = !me.isFollowing;
      changed("state");
      await (me.isFollowing ? api.put : api.remove)(`/community/members/${other}/follow`);
    },
    async readAll() {
      await api.post("/api/notifications/read-all");
      me.inbox.forEach((known) => { known.isRead = true; });
      setUnread(0);
      changed("inbox");
    },
    // Another device of the member: a connection of its own.
    addDevice() {
      const device = { number: (me.devices.at(-1)?.number ?? 1) + 1 };
      device.stream = connectNotifications({ url: STREAM, token, share: false, onState: ({ state, connectionId }) => {
        if (connectionId) device.connectionId = connectionId;
        if (state === "evicted") me.removeDevice(device);
        setTimeout(loadConnections, 250);
      } });
      me.devices.push(device);
    },
    removeDevice(device) {
      me.devices = me.devices.filter((known) => known !== device);
      device.stream.close();
      setTimeout(loadConnections, 250);
    },
    async evict(connectionId) {
      await api.remove(`/api/notifications/connections/${connectionId}`);
      note("logEvict", {}, "");
    },
    loadConnections,
  });
  return me;
}
