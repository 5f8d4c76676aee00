// Two members of a community on one page, and a server to break.

import { ask } from "./api.js";
import { showBreaks } from "./breaks.js";
import { createLog } from "./log.js";
import { createMember } from "./member.js";
import { showNumbers } from "./numbers.js";
import { showPhone } from "./phone.js";
import { openPost } from "./post.js";
import { language, nameOf, onLanguage, setLanguage, t, translate } from "./text.js";

const AUDIT_MS = 800;
const MEMBERS = [{ id: 1, name: "Mina" }, { id: 2, name: "Joon" }];
const byId = (id) => document.getElementById(id);

function chooseLanguageAndTheme() {
  const buttons = [...document.querySelectorAll("[data-language]")];
  buttons.forEach((button) => button.addEventListener("click", () => setLanguage(button.dataset.language)));
  onLanguage(() => buttons.forEach((button) => button.setAttribute("aria-pressed", button.dataset.language === language)));
  const root = document.documentElement;
  root.dataset.theme = localStorage.getItem("postroom.demo.theme") ?? "";
  byId("theme").addEventListener("click", () => {
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    localStorage.setItem("postroom.demo.theme", root.dataset.theme);
  });
}

// On a narrow screen, one part is shown at a time.
function chooseView() {
  const tabs = [...document.querySelectorAll("[data-view]")];
  const show = (view) => {
    document.body.dataset.view = view;
    tabs.forEach((tab) => tab.setAttribute("aria-selected", tab.dataset.view === view));
  };
  tabs.forEach((tab) => tab.addEventListener("click", () => show(tab.dataset.view)));
  onLanguage(() => MEMBERS.forEach(({ id, name }) => { tabs.find((tab) => tab.dataset.view === String(id)).textContent = nameOf(name); }));
  show("1");
}

async function findRoom([mina, joon]) {
  const { rooms } = await mina.api.get("/api/chat/rooms");
  const known = rooms.find((room) => room.name === "snow");
  return (known ?? await mina.api.post("/api/chat/rooms", { name: "snow", memberIds: [joon.id] })).roomId;
}

// Compares what the members have received with what the database has.
function createAudit(members, tell) {
  let isAway = false;
  return async function audit() {
    const after = Object.fromEntries(members.map(({ id, stream }) => [`after${id}`, lastSure(stream)]));
    const afterRoom = Math.min(...members.map(({ room }) => lastSure(room)));
    const query = new URLSearchParams({ ...after, roomId: members[0].roomId, afterRoom });
    try {
      const { streams, room: numbers } = await ask("GET", `/community/demo/numbers?${query}`);
      members.forEach((member) => {
        member.stream.exists(streams[member.id]);
        member.room.exists(numbers.map((seq) => ({ seq, isSilent: false })));
      });
      if (isAway) tell({ key: "logServerBack", tone: "good" });
      isAway = false;
    } catch {
      if (!isAway) tell({ key: "logServerGone", tone: "bad" });
      isAway = true;
    }
  };
}

// Everything up to this number has been compared.
function lastSure(received) {
  const missing = received.missing();
  return missing.length ? Math.min(...missing) - 1 : Math.max(received.top(), (received.first ?? 1) - 1);
}

async function start() {
  chooseLanguageAndTheme();
  chooseView();
  translate();
  const tell = createLog(byId("log"));
  let audit = async () => {};
  const members = MEMBERS.map((who) => createMember(who, { tell, onServer: () => audit() }));
  await Promise.all(members.map((member) => member.api.put("/community/members/me", { nickname: member.name })));
  const [mina, joon] = members;
  const [roomId, post] = await Promise.all([findRoom(members), openPost(mina, joon)]);
  audit = createAudit(members, tell);
  showPhone(byId("member-1"), mina, joon, post);
  showPhone(byId("member-2"), joon, mina, post);
  showNumbers(byId("numbers"), members);
  showBreaks(byId("breaks"), { members, post, tell, audit });
  translate();
  await Promise.all(members.map((member) => member.start(roomId)));
  tell({ key: "logWelcome" });
  setInterval(() => document.visibilityState === "visible" && audit(), AUDIT_MS);
}

start().catch((error) => {
  const failure = byId("failure");
  failure.textContent = t("failure", { why: error.message });
  failure.hidden = false;
  throw error;
});
