// The HTTP API, as one member or as the person who watches.

import { claimsOf } from "./page.js";

const tokens = new Map();

// The token of a demo member. The server mints it for callers on its own machine.
export async function tokenOf(memberId, { isStale = false } = {}) {
  if (isStale) tokens.delete(memberId);
  const known = tokens.get(memberId);
  if (known && claimsOf(known).exp * 1000 > Date.now() + 10_000) return known;
  const { token } = await ask("POST", "/community/demo/token", { memberId });
  tokens.set(memberId, token);
  return token;
}

// A request of the person who watches.
export async function ask(method, path, body, headers = {}) {
  const content = body === undefined ? {} : { body: JSON.stringify(body), headers: { ...headers, "content-type": "application/json" } };
  const response = await fetch(path, { method, headers, cache: "no-store", signal: AbortSignal.timeout(8_000), ...content });
  const answer = (response.headers.get("content-type") ?? "").includes("json") ? await response.json() : undefined;
  if (response.ok) return answer;
  throw Object.assign(new Error(answer?.detail ?? `${method} ${path}: ${response.status}`), { status: response.status });
}

// The API as one member uses it.
export function apiOf(memberId) {
  const as = async (method, path, body) => {
    const send = async (how) => ask(method, path, body, { authorization: `Bearer ${await tokenOf(memberId, how)}` });
    try {
      return await send({});
    } catch (error) {
      if (error.status !== 401) throw error;
      return send({ isStale: true });
    }
  };
  return {
    get: (path) => as("GET", path),
    post: (path, body = {}) => as("POST", path, body),
    put: (path, body = {}) => as("PUT", path, body),
    remove: (path) => as("DELETE", path),
  };
}
