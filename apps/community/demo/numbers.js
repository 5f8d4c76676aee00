// Strips of cells, one for each number of a stream.

import { el } from "./page.js";
import { nameOf, onLanguage, t } from "./text.js";

const CELLS = 40;
const LEGEND = { live: "legendLive", late: "legendLate", silent: "legendSilent", missing: "legendMissing" };

export function showNumbers(root, members) {
  const rows = members.flatMap((member) => [row(member, member.stream, "streamOf"), row(member, member.room, "roomOf")]);
  const legend = el("p", { class: "legend" });
  root.replaceChildren(...rows, legend);
  onLanguage(() => {
    const entries = Object.entries(LEGEND).map(([state, key]) => el("span", {}, el("i", { class: `cell ${state}` }), t(key)));
    legend.replaceChildren(...entries);
  });
}

function row(member, received, key) {
  const name = el("span", { class: "name" }), top = el("output"), cells = el("span", { class: "cells", "aria-hidden": "true" });
  for (let i = 0; i < CELLS; i++) cells.append(el("i", { class: "cell" }));
  let frame;

  function show() {
    frame = undefined;
    const last = received.top();
    const begin = Math.max(received.first ?? 1, last - CELLS + 1);
    for (let i = 0; i < CELLS; i++) {
      const state = received.cells.get(begin + i)?.state ?? "";
      const cell = cells.children[i];
      if (cell.className === `cell ${state}` && cell.dataset.n === String(begin + i)) continue;
      [cell.className, cell.dataset.n, cell.title] = [`cell ${state}`, begin + i, LEGEND[state] ? `${begin + i}: ${t(LEGEND[state])}` : ""];
    }
    top.textContent = last >= (received.first ?? 1) ? last : "–";
  }

  received.onChange(() => { frame ??= requestAnimationFrame(show); });
  onLanguage(() => { name.textContent = t(key, { name: nameOf(member.name) }); show(); });
  return el("div", { class: "strip", "data-member": member.id }, name, cells, top);
}
