// Requests to the server of this page, which is the only one that is asked.

const place = "portald-token";

// takeToken takes the token from the page's address, and removes it there.
export function takeToken() {
  const found = /^#token=([A-Za-z0-9]+)$/.exec(location.hash);
  if (!found) return;
  localStorage.setItem(place, found[1]);
  history.replaceState(null, "", location.pathname + "#/services");
}

export class NoToken extends Error {}

export async function get(path, query, signal) {
  const text = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
  const token = localStorage.getItem(place);
  const response = await fetch("api/" + path + (text ? "?" + text : ""), {
    signal,
    headers: token ? { Authorization: "Bearer " + token } : {},
  });
  const answer = await response.json();
  if (response.status === 401) throw new NoToken(answer.error);
  if (!response.ok) throw new Error(answer.error);
  return answer;
}
