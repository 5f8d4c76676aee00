// What happened, newest first, with the proof of each gap that was made up for.

import { clockTime, el, icon, ranges } from "./page.js";
import { nameOf, onLanguage, t } from "./text.js";

const ENTRIES_MAX = 60;

export function createLog(list) {
  const entries = [];

  function proof({ stream, chat, gaps, duplicates }) {
    const numbers = [["logNotifications", stream], ["logChat", chat]].filter(([, received]) => received.length);
    const received = numbers.map(([key, found]) => el("span", { class: "fact" }, `${t(key)} `, el("b", {}, ranges(found))));
    const count = (key, n) => el("span", { class: `fact ${n ? "bad" : "good"}` }, `${t(key)} `, el("b", {}, String(n)));
    return el("p", { class: "proof" }, ...(received.length ? received : [el("span", { class: "fact" }, t("logNothing"))]), count("gaps", gaps), count("duplicates", duplicates));
  }

  function row({ at, member, key, values, tone = "", proof: found }) {
    const who = member && el("b", { "data-author": member.id }, nameOf(member.name), " ");
    return el("li", { class: tone }, el("time", {}, clockTime(at)), el("div", {}, el("p", {}, who, t(key, values)), found && proof(found)), found && !found.gaps && !found.duplicates && icon("check"));
  }

  onLanguage(() => list.replaceChildren(...entries.map(row)));
  return function tell(entry) {
    entries.unshift({ at: Date.now(), ...entry });
    list.prepend(row(entries[0]));
    while (entries.length > ENTRIES_MAX) {
      entries.pop();
      list.lastElementChild.remove();
    }
  };
}
