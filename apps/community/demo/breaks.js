// Buttons that break things: connections of this page, the fan-out and the workers of the server.

import { ask } from "./api.js";
import { el, icon } from "./page.js";
import { line, onLanguage, remark, t } from "./text.js";

const UNPLUGGED_MS = 6_000;
const LINES_MISSED = 6;
const FRAMES_LOST = 5;

export function showBreaks(root, { members: [mina, joon], post, tell, audit }) {
  const acts = [
    ["plane", "breakUnplug", unplug], ["storm", "breakStorm", storm], ["lost", "breakLose", lose],
    ["device", "breakDevices", addDevices], ["pause", "breakNotifications", (button) => pause(button, "notification")],
    ["pause", "breakStore", (button) => pause(button, "chat_persist")],
  ];
  const buttons = acts.map(([picture, key, act]) => {
    const title = el("b"), says = el("span");
    const button = el("button", { type: "button", "data-break": key, onclick: () => run(key, () => act(button)) }, icon(picture), title, says);
    onLanguage(() => { [title.textContent, says.textContent] = [t(key), t(`${key}Says`)]; });
    return button;
  });
  const tab = el("a", { href: location.pathname, target: "_blank", rel: "noopener" }, icon("tab"), el("b", { "data-t": "breakTab" }), el("span", { "data-t": "breakTabSays" }));
  root.replaceChildren(...buttons, tab, el("p", { "data-t": "breakKill" }));

  async function run(key, act) {
    try {
      await act();
    } catch (error) {
      tell({ key: "logFailed", values: { what: t(key), why: error.message }, tone: "bad" });
    }
  }

  // Both pages are away; their members go on writing elsewhere.
  async function unplug(button) {
    button.disabled = true;
    [mina, joon].forEach((member) => member.goOffline());
    for (let i = 0; i < LINES_MISSED; i++) {
      const sender = i % 2 ? mina : joon;
      await sender.api.post(`/api/chat/rooms/${sender.roomId}/messages`, { clientMsgId: crypto.randomUUID(), body: line(i) });
      await post.comment(joon, remark(i));
      await pass(UNPLUGGED_MS / LINES_MISSED);
    }
    [mina, joon].forEach((member) => member.goOnline());
    button.disabled = false;
  }

  async function storm() {
    const comments = Array.from({ length: 20 }, (_, i) => post.comment(joon, remark(i)));
    const likes = Array.from({ length: 5 }, () => post.likeNew(mina, joon));
    await Promise.all([...comments, ...likes]);
    tell({ key: "logStorm" });
  }

  async function lose() {
    await ask("POST", "/community/demo/lose", { frames: FRAMES_LOST });
    tell({ key: "logLose", values: { n: FRAMES_LOST }, tone: "bad" });
    for (let i = 0; i < FRAMES_LOST; i++) await post.comment(joon, remark(i));
    await audit();
  }

  async function addDevices() {
    tell({ key: "logDevices" });
    while (mina.devices.length < 3) {
      mina.addDevice();
      await pass(700);
    }
  }

  async function pause(button, route) {
    const isPaused = button.getAttribute("aria-pressed") !== "true";
    await ask("POST", "/community/demo/pause", { route, isPaused });
    button.setAttribute("aria-pressed", isPaused);
    tell({ key: isPaused ? "logPaused" : "logGoesOn", values: { route }, tone: isPaused ? "bad" : "good" });
  }
}

const pass = (ms) => new Promise((done) => setTimeout(done, ms));
