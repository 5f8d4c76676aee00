// One member as a phone: notifications, a post, a chat, and the connections.

import { clockTime, el, icon, stickToEnd } from "./page.js";
import { label, nameOf, onLanguage, t } from "./text.js";

const TOAST_MS = 3_500;
const COMMENTS_SHOWN = 3;

export function showPhone(root, member, other, post) {
  root.dataset.member = member.id;
  const parts = [head(member, other), inbox(member, other), postCard(member, other, post), chatRoom(member, other), connections(member)];
  root.replaceChildren(...parts.map((part) => part.element), toasts(member, other));
  for (const part of parts) part.kinds.forEach((kind) => member.on(kind, part.show));
  post.onChange(() => parts[2].show());
  onLanguage(() => parts.forEach((part) => part.show()));
}

// A button with a picture alone.
function tool(name, click, kind = "") {
  return el("button", { type: "button", class: `tool ${kind}`, onclick: click }, icon(name));
}

function head(member, other) {
  const badge = el("span", { class: "badge" });
  const bell = tool("bell", () => element.closest(".phone").classList.toggle("has-inbox"), "bell");
  bell.append(badge);
  const mute = tool("bell-off", () => member.setMuted(!member.isMuted), "mute");
  const plane = tool("plane", () => (member.isOnline ? member.goOffline() : member.goOnline()), "plane");
  const name = el("h2"), state = el("p", { class: "state" }), avatar = el("span", { class: "avatar", "aria-hidden": "true" });
  const again = el("button", { type: "button", class: "link", onclick: () => member.reconnect() });
  const element = el("header", {}, avatar, el("div", { class: "who" }, name, state), plane, mute, bell);

  function show() {
    name.textContent = nameOf(member.name);
    avatar.textContent = nameOf(member.name)[0];
    element.closest(".phone")?.setAttribute("data-state", member.isOnline ? member.state.state : "offline");
    again.textContent = t("again");
    state.replaceChildren(el("i", { class: "dot" }), stateText(member), ...(["evicted", "refused"].includes(member.state.state) ? [again] : []));
    label(bell, t("inbox"));
    label(mute, t(member.isMuted ? "unmute" : "mute"));
    label(plane, t(member.isOnline ? "goOffline" : "goOnline"));
    mute.setAttribute("aria-pressed", member.isMuted);
    plane.setAttribute("aria-pressed", !member.isOnline);
    if (badge.textContent !== String(member.unread)) restart(badge, "pop");
    badge.textContent = member.unread > 99 ? "99+" : member.unread;
    badge.hidden = !member.unread;
  }

  return { element, show, kinds: ["state", "unread"] };
}

function stateText(member) {
  const { state, isLeader, retryAt } = member.state;
  if (!member.isOnline) return t("offline");
  if (state === "open") return t(isLeader ? "live" : "throughTab");
  if (state === "waiting") return t("waitingUntil", { s: Math.max(0, Math.ceil((retryAt - Date.now()) / 1000)) });
  return t(state);
}

function restart(element, animation) {
  element.classList.remove(animation);
  void element.offsetWidth; // so that the animation begins anew
  element.classList.add(animation);
}

function says({ type, message, actorId }, member, other) {
  const actor = actorId === other.id ? nameOf(other.name) : actorId === member.id ? nameOf(member.name) : undefined;
  if (!actor || t(type) === type) return message;
  const [, quote] = message.split("”: ");
  return t(type, { name: actor }) + (quote ? ` “${quote}”` : "");
}

function inbox(member, other) {
  const list = el("ul"), title = el("h3"), all = el("button", { type: "button", class: "link", onclick: () => member.readAll() });
  const follow = el("button", { type: "button", class: "chip", onclick: () => member.follow(other.id) });
  const element = el("section", { class: "inbox" }, el("div", { class: "row" }, title, all), list, follow);

  function show() {
    title.textContent = t("inbox");
    all.textContent = t("readAll");
    all.hidden = !member.unread;
    follow.textContent = t(member.isFollowing ? "following" : "follow", { name: nameOf(other.name) });
    follow.setAttribute("aria-pressed", member.isFollowing);
    const items = member.inbox.map((known) => el("li", { class: known.isRead ? "" : "unread" }, says(known, member, other)));
    list.replaceChildren(...(items.length ? items : [el("li", { class: "empty" }, t("emptyInbox"))]));
  }

  return { element, show, kinds: ["inbox", "unread", "state"] };
}

function toasts(member, other) {
  const element = el("div", { class: "toast", "aria-hidden": "true" });
  let timer;
  member.on("toast", (notification) => {
    element.replaceChildren(icon("bell"), says(notification, member, other));
    restart(element, "shown");
    clearTimeout(timer);
    timer = setTimeout(() => element.classList.remove("shown"), TOAST_MS);
  });
  return element;
}

function postCard(member, other, post) {
  const title = el("h3"), body = el("p"), comments = el("ul", { class: "comments" });
  const likes = el("span"), count = el("span"), overlay = el("span", { class: "overlay" });
  const like = el("button", { type: "button", class: "count like", onclick: () => post.like(member) }, icon("heart"), likes);
  const input = el("input", { maxlength: 500, autocomplete: "off" });
  const form = el("form", { class: "compose small", onsubmit }, input);
  const element = el("article", { class: "post" }, title, body,
    el("div", { class: "row counts" }, like, el("span", { class: "count" }, icon("comment"), count), overlay), comments, form);

  function onsubmit(event) {
    event.preventDefault();
    if (input.value.trim()) post.comment(member, input.value.trim());
    input.value = "";
  }

  function comment({ commentId, authorId, body: text }) {
    const isMine = authorId === member.id;
    const remove = tool("cross", () => post.removeComment(member, commentId), "tiny");
    label(remove, t("removeComment"));
    return el("li", { "data-author": authorId }, el("b", {}, nameOf(isMine ? member.name : other.name)), " ", text, isMine && remove);
  }

  function show() {
    title.textContent = t("postTitle");
    body.textContent = t("postBody");
    label(like, t(post.isLikedBy(member) ? "unlike" : "like"));
    like.setAttribute("aria-pressed", post.isLikedBy(member));
    likes.textContent = post.likeCount;
    if (count.textContent !== String(post.commentCount)) restart(count, "pop");
    count.textContent = post.commentCount;
    overlay.textContent = post.overlay ? t("overlay", { n: post.overlay }) : t("flushed");
    overlay.classList.toggle("is-waiting", post.overlay > 0);
    input.placeholder = t("writeComment");
    label(input, t("writeComment"));
    comments.replaceChildren(...post.comments.slice(-COMMENTS_SHOWN).map(comment));
  }

  return { element, show, kinds: ["state"] };
}

function chatRoom(member, other) {
  const list = el("ol"), input = el("input", { maxlength: 1000, autocomplete: "off" });
  const send = el("button", { class: "tool send" }, icon("send"));
  const form = el("form", { class: "compose", onsubmit }, input, send);
  const element = el("section", { class: "chat" }, list, form);
  let edited;
  new ResizeObserver(() => { list.scrollTop = list.scrollHeight; }).observe(list); // also when it was hidden

  function onsubmit(event) {
    event.preventDefault();
    const body = input.value.trim();
    input.value = "";
    if (body && edited) member.edit(edited, body);
    else if (body) member.say(body);
    edited = undefined;
    element.classList.remove("is-editing");
  }

  function beginEdit({ messageId, body }) {
    edited = messageId;
    input.value = body;
    element.classList.add("is-editing");
    input.focus();
  }

  function bubble(message) {
    const isMine = message.senderId === member.id;
    const item = el("li", { class: `bubble ${isMine ? "mine" : ""} ${message.isDeleted ? "deleted" : ""}`, "data-author": message.senderId, tabindex: isMine ? "-1" : undefined });
    const text = message.isDeleted ? t("removed") : message.body;
    const facts = message.isDeleted ? [] : [message.isEdited && t("edited"), isMine && tick(message)].filter(Boolean);
    // A space that does not break keeps the ticks with the last word.
    item.append(el("p", {}, text, ...(facts.length ? ["\u00a0", el("span", { class: "meta" }, ...facts)] : [])));
    if (isMine && !message.isDeleted && message.tick !== "waiting") {
      const [change, remove] = [tool("pencil", () => beginEdit(message), "tiny"), tool("bin", () => member.takeBack(message.messageId), "tiny")];
      label(change, t("edit"));
      label(remove, t("remove"));
      item.append(el("span", { class: "acts" }, change, remove));
    }
    return item;
  }

  function show() {
    input.placeholder = t("writeMessage", { name: nameOf(other.name) });
    label(input, input.placeholder);
    label(send, t("send"));
    const shown = [...member.messages.values()].sort((a, b) => a.messageId - b.messageId);
    const known = new Set(shown.map((message) => message.clientMsgId));
    const waiting = [...member.pending.values()].filter((message) => !known.has(message.clientMsgId))
      .map((message) => ({ ...message, senderId: member.id, tick: message.state }));
    const bubbles = [...shown.slice(-60), ...waiting].map(bubble);
    stickToEnd(list, () => list.replaceChildren(...(bubbles.length ? bubbles : [el("li", { class: "empty" }, t("emptyChat"))])));
  }

  return { element, show, kinds: ["messages", "state"] };
}

// waiting: a clock; sending: one tick; stored: two.
function tick({ tick: state, code }) {
  const key = { waiting: "tickWaiting", sending: "tickSending", stored: "tickStored", refused: "tickRefused" }[state];
  const picture = state === "waiting" ? icon("clock") : state === "refused" ? icon("cross") : ticks();
  const element = el("span", { class: `tick ${state}` }, picture);
  label(element, t(key, { code }));
  element.setAttribute("role", "img");
  return element;
}

function ticks() {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 20 12");
  svg.setAttribute("class", "icon ticks");
  for (const line of ["m2 6.5 3.5 3.5L12 3", "m8.5 9 1 1L16.5 3"]) {
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", line);
    svg.append(path);
  }
  return svg;
}

function connections(member) {
  const title = el("h3"), list = el("ul"), add = el("button", { type: "button", class: "chip add", onclick: () => member.addDevice() }, icon("plus"));
  const element = el("footer", { class: "connections" }, el("div", { class: "row" }, title), list);

  function nameOfConnection({ id }) {
    if (id === member.connectionId) return t("thisPage");
    const device = member.devices.find((known) => known.connectionId === id);
    return device ? t("device", { n: device.number }) : t("anotherTab");
  }

  function show() {
    title.replaceChildren(t("connections"), el("span", { class: "quiet" }, t("ofThree", { n: member.connections.length })));
    label(add, t("addDevice"));
    const chip = (connection) => {
      const evict = tool("cross", () => member.evict(connection.id), "tiny");
      label(evict, t("evict"));
      const item = el("li", { class: "chip" }, icon("device"), nameOfConnection(connection), evict);
      if (connection.connectedAt) item.title = t("since", { time: clockTime(connection.connectedAt) });
      return item;
    };
    list.replaceChildren(...member.connections.map(chip), el("li", {}, add));
  }

  return { element, show, kinds: ["connections", "state"] };
}
