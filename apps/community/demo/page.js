// Small means for pages that are made of elements: no markup in strings, so no text of a member becomes markup.

export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== false));
  return element;
}

export function icon(name, kind = "") {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", `icon ${kind}`);
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#${name}`);
  svg.append(use);
  return svg;
}

// Keeps the end of a list in view if it was in view.
export function stickToEnd(list, change) {
  const isAtEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 60;
  change();
  if (isAtEnd) list.scrollTop = list.scrollHeight;
}

export const clockTime = (at) => new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });

// The claims of a token, to see when it expires.
export function claimsOf(token) {
  const payload = token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/");
  return JSON.parse(atob(payload));
}

// "42–45, 47"
export function ranges(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b), parts = [];
  for (const number of sorted) {
    const last = parts.at(-1);
    if (last && number === last[1] + 1) last[1] = number;
    else parts.push([number, number]);
  }
  return parts.map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`)).join(", ");
}
