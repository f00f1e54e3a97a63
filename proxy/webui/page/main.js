// The page: which view is shown, when it asks again, and keys.

import { get, NoToken, takeToken } from "./api.js";
import { connections } from "./connections.js";
import { fill, h, say } from "./dom.js";
import { explain, nodes } from "./explain.js";
import { failures } from "./failures.js";
import { clock, plural, setUTC, zone } from "./format.js";
import { service } from "./service.js";
import { services } from "./services.js";

const by = (id) => document.getElementById(id);
const main = by("main"), text = by("text"), notice = by("notice"), state = by("state"), keys = by("keys");

let view = null, route = "", timer = 0, asking = null, paused = false, heard = 0, known = [], silent = [];

const page = {
  about: null, // what it can do
  text: () => text.value.trim(),
  again: () => {
    view.again?.();
    ask();
  },
  nodes: (all) => {
    known = all;
    silent = all.filter((n) => n.why);
  },
  away: (all) => {
    silent = all;
  },
};

function viewOf(hash) {
  const [, name, ...rest] = hash.split("/");
  const [first, second] = rest.map(decode);
  switch (name) {
    case "service": return service(page, first || "", second || "tcp");
    case "failures": return failures(page);
    case "connections": return connections(page, { service: first, endpoint: second });
    case "nodes": return nodes(page);
    case "explain": return explain(page, first || "", second);
    default: return services(page);
  }
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function go() {
  const hash = location.hash.startsWith("#/") ? location.hash : "#/services";
  if (hash === route) return;
  route = hash;
  text.value = "";
  view = viewOf(hash);
  document.title = view.title + " · portald";
  by("find").hidden = !view.find;
  text.placeholder = view.find || "";
  const tab = hash.split("/")[1];
  for (const link of by("views").children) {
    const here = link.hash === "#/" + (tab === "service" || tab === "explain" ? "services" : tab);
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  fill(main, [view.element]);
  main.dataset.ready = "";
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
  ask();
}

// ask has the view load what it shows, and again later.
async function ask() {
  clearTimeout(timer);
  asking?.abort();
  const mine = (asking = new AbortController());
  const asked = view;
  let soon = false; // it has nothing to show yet
  try {
    page.about ||= await get("about", {}, mine.signal);
    const answer = await asked.load((path, query) => get(path, query, mine.signal));
    if (mine.signal.aborted) return;
    soon = asked.show(answer) === true;
    heard = Date.now();
    tell("");
    main.dataset.ready = "yes";
  } catch (error) {
    if (mine.signal.aborted) return;
    tell(error instanceof NoToken ? "✗ " + error.message
      : error instanceof TypeError && /fetch/i.test(error.message)
        ? "✗ Nothing answers at this address: portald, portald ui or the tunnel to it has ended"
        : "✗ " + error.message);
  }
  status();
  if (asked.every && !paused && !document.hidden) timer = setTimeout(ask, soon ? 200 : asked.every);
}

function tell(what) {
  say(notice, what);
  notice.hidden = !what;
}

function status() {
  const parts = [paused ? "paused" : heard ? "as of " + clock(heard) : "asking", zone()];
  if (known.length) parts.unshift(plural(known.length, "node"));
  say(state, parts.join(" · "));
  let gone = by("gone");
  if (!silent.length) {
    gone?.remove();
    return;
  }
  if (!gone) {
    gone = h("p", { id: "gone", role: "status", class: "warning" });
    main.before(gone);
  }
  const names = silent.slice(0, 3).map((a) => `${a.portald_node} (${a.why})`).join("; ");
  say(gone, `✗ ${plural(silent.length, "node")} not answering, and not in these figures: ${names}`
    + (silent.length > 3 ? ` and ${silent.length - 3} more` : ""));
}

// move moves the focus to another row.
function move(by) {
  const rows = [...main.querySelectorAll("[data-row]")].filter((row) => row.offsetParent);
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement.closest?.("tr")?.querySelector("[data-row]"));
  const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by))];
  next.focus();
  next.closest("tr").scrollIntoView({ block: "nearest" });
}

function back() {
  if (view.tables?.some((table) => table.close())) return;
  const tab = route.split("/")[1];
  if (tab === "service" || tab === "explain" || route.split("/").length > 2) history.back();
}

function pause() {
  paused = !paused;
  by("pause").setAttribute("aria-pressed", String(paused));
  by("pause").textContent = paused ? "Go on" : "Pause";
  if (paused) status();
  else ask();
}

function other() {
  const on = by("zone").getAttribute("aria-pressed") !== "true";
  by("zone").setAttribute("aria-pressed", String(on));
  setUTC(on);
  ask();
}

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || keys.open) return;
  const typing = event.target.matches?.("input[type=search], select, textarea");
  if (event.key === "Escape") {
    if (typing && text.value) {
      text.value = "";
      page.again();
    } else if (typing) main.focus();
    else back();
    return;
  }
  if (event.target === text && event.key === "ArrowDown") move(1);
  else if (typing) return;
  else if (event.key === "/" && !by("find").hidden) text.focus();
  else if (event.key === "ArrowDown" || event.key === "j") move(1);
  else if (event.key === "ArrowUp" || event.key === "k") move(-1);
  else if (event.key === "p") pause();
  else if (event.key === "u") other();
  else if (event.key === "?") keys.showModal();
  else if (/^[1-4]$/.test(event.key)) location.hash = by("views").children[event.key - 1].hash;
  else return;
  event.preventDefault();
}

let typed = 0;
text.addEventListener("input", () => {
  clearTimeout(typed);
  typed = setTimeout(page.again, 150);
});
by("find").addEventListener("submit", (event) => {
  event.preventDefault();
  move(1);
});
by("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
by("pause").addEventListener("click", pause);
by("zone").addEventListener("click", other);
by("help").addEventListener("click", () => keys.showModal());
document.addEventListener("keydown", key);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && !paused) ask();
});
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#token=")) takeToken();
  go();
});

takeToken();
go();
