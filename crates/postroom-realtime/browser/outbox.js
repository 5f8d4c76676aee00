
const OUTBOX_MAX = 500;
const STORED_KEPT = 256;

// The messages of a tab that the server has not stored yet. They are waiting (for an answer), sending (the server has given them
// their place in the room), then stored or refused. A page that is loaded again finds them in the session storage.
function createOutbox(onChange) {
  const waiting = new Map();
  const storedEarly = new Set(); // "room/number": the server may tell that a message is stored before it tells its number
  let key;

  function save() {
    try {
      if (key) sessionStorage.setItem(key, JSON.stringify([...waiting.values()]));
    } catch {
      // Without a storage they live as long as the page.
    }
  }

  function update(message, change) {
    Object.assign(message, change);
    if (["stored", "refused"].includes(message.state)) waiting.delete(message.clientMsgId);
    save();
    onChange({ ...message });
  }

  return {
    list: () => [...waiting.values()],

    // Goes on with the messages that an earlier page has left.
    open(name) {
      let left = [];
      try {
        left = parseJson(sessionStorage.getItem(name)) ?? [];
      } catch {
        // No storage.
      }
      const added = [...waiting.values()];
      waiting.clear();
      for (const message of [...left, ...added]) waiting.set(message.clientMsgId, message);
      key = name;
      save();
    },

    add(message) {
      if (waiting.size >= OUTBOX_MAX) throw new Error(`the outbox has ${OUTBOX_MAX} messages`);
      waiting.set(message.clientMsgId, message);
      update(message, { state: "waiting" });
      return message;
    },

    allot({ clientMsgId, roomId, seq, messageId }) {
      const message = waiting.get(clientMsgId);
      if (!message) return;
      update(message, { state: "sending", seq, messageId });
      if (storedEarly.delete(`${roomId}/${seq}`)) update(message, { state: "stored" });
    },

    store(roomId, seq) {
      const message = [...waiting.values()].find((known) => known.roomId === roomId && known.seq === seq);
      if (message) return update(message, { state: "stored" });
      storedEarly.add(`${roomId}/${seq}`);
      if (storedEarly.size > STORED_KEPT) storedEarly.delete(storedEarly.values().next().value);
      return undefined;
    },

    refuse({ clientMsgId, code, detail }) {
      const message = waiting.get(clientMsgId);
      if (message) update(message, { state: "refused", code, detail });
    },
  };
}
