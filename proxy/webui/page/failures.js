// How connections ended, and what changed meanwhile, on one axis of time.

import { timeline } from "./chart.js";
import { fill, h } from "./dom.js";
import { explainLink } from "./explain.js";
import { bytes, clock, count, millis, moment, plural } from "./format.js";
import { Table } from "./table.js";

const symbols = {
  endpoint_added: "+", endpoint_removed: "−", endpoint_ready: "▲", endpoint_not_ready: "▽", endpoint_terminating: "▽",
  endpoints_changed: "±", endpoint_drained: "◌", endpoint_undrained: "●", endpoint_ejected: "✗", endpoint_back: "✓",
  service_added: "+", service_removed: "−", service_changed: "✎", mode_changed: "⇄", service_refused: "✗",
  service_accepted: "✓", rules_changed: "!", api_server_away: "!", api_server_back: "✓", daemon_started: "▶",
  daemon_took_over: "▶", daemon_ending: "■", resynced: "↻", connections_cut: "✂",
};

const steps = {
  accepted: "→", waited: "…", dialled: "→", refused: "✗", connected: "✓", first_byte: "↓", blocked: "⏸", ended: "■",
};

const words = { failed: ["failed", "failed connection"], retried: ["dialled again", "connection with retries"],
  all: ["all", "connection"] };

// failures is the view of all, or of one Service.
export function failures(page, of = {}) {
  const choice = { window: "15m", kind: "failed", endings: true, changes: true };
  const chart = h("div", {});
  const summary = h("p", { class: "summary" });
  let last = null;
  const table = new Table({
    label: "What happened, the latest first", columns: columns(), key: (row) => row.key,
    details: (row) => (row.record ? story(page, row) : changed(row)), empty: "Nothing in this time.",
  });
  const again = () => {
    if (last) show(last);
    page.again();
  };
  const controls = h("div", { class: "controls" },
    choose("Time", choice, "window", { "5m": "5 minutes", "15m": "15 minutes", "1h": "1 hour", "6h": "6 hours", "24h": "24 hours" }, again),
    choose("Connections", choice, "kind", { failed: "failed", retried: "dialled again", all: "all" }, again),
    check("connections", choice, "endings", again), check("changes", choice, "changes", again));

  function show(answer) {
    last = answer;
    const text = of.service ? "" : page.text().toLowerCase();
    const match = (row) => !text || row.find.toLowerCase().includes(text);
    const all = rows(answer, choice).filter(match);
    table.update(all);
    fill(summary, outcomes(answer, choice.kind));
    const marks = choice.changes ? grouped(answer, all.filter((row) => row.change)) : [];
    fill(chart, [timeline({ from: answer.from, to: answer.to, bins: answer.bins, marks,
      unknownUntil: Date.parse(answer.known_since), what: words[choice.kind][1] + "s",
      pick: (mark) => table.rows.get(mark.key)?.handle.focus() })]);
    page.away(answer.away);
  }
  return {
    title: "Failures", every: 4000, find: "Service, pod, address or outcome", tables: [table],
    element: h("section", {}, of.service ? h("h3", {}, "What happened") : h("h2", { class: "unseen" }, "Failures"),
      controls, chart, summary, table.element),
    load: (get) => get("endings", { window: choice.window, kind: choice.kind, service: of.service }),
    show,
  };
}

function choose(label, choice, name, among, again) {
  return h("label", {}, label + " ", h("select", { onchange: (event) => {
    choice[name] = event.target.value;
    again();
  } }, Object.entries(among).map(([value, text]) => h("option", { value, selected: choice[name] === value }, text))));
}

function check(label, choice, name, again) {
  return h("label", {}, h("input", { type: "checkbox", checked: choice[name], onchange: (event) => {
    choice[name] = event.target.checked;
    again();
  } }), " " + label);
}

function rows(answer, choice) {
  const all = [];
  if (choice.endings) {
    for (const e of answer.endings) {
      all.push({ ...e, key: `${e.portald_node} ${e.record.id} ${e.record.time} ${e.record.event}`, service: e.record.service,
        node: e.portald_node, find: JSON.stringify(e.record) + e.what });
    }
  }
  if (choice.changes) {
    for (const c of answer.changes) {
      all.push({ change: c, key: c.time + c.text, at: c.time, service: c.service || "", what: c.text,
        node: c.portald_nodes.length > 2 ? plural(c.portald_nodes.length, "node") : c.portald_nodes.join(", "),
        find: JSON.stringify(c) });
    }
  }
  return all.sort((a, b) => Date.parse(b.at) - Date.parse(a.at));
}

function columns() {
  return [
    { id: "at", name: "Time", cell: (r) => ({ text: clock(r.at, true), about: moment(r.at) }) },
    { id: "what", name: "What", wide: true, cell: (r) => (r.change
      ? { text: `${symbols[r.change.kind] || "•"} ${r.what}`, mark: r.change.warning ? "doubt" : "change" }
      : { text: `${["ok", "max_age"].includes(r.record.outcome) ? "✓" : "✗"} ${r.record.outcome}: ${r.what}`,
        mark: ["ok", "max_age"].includes(r.record.outcome) ? "good" : "bad" }) },
    { id: "service", name: "Service", long: true, cell: (r) => r.service },
    { id: "client", name: "Client", long: true, cell: (r) => (r.record ? who(r.record.client, r.record.client_pod) : "") },
    { id: "endpoint", name: "Endpoint", long: true, cell: (r) => (r.record ? who(r.record.endpoint, r.record.pod) : "") },
    { id: "after", name: "After", number: true, cell: (r) => (r.record ? millis(r.record.duration_ms) : "") },
    { id: "node", name: "Node", whole: true, cell: (r) => r.node },
  ];
}

export function who(address, pod) {
  if (!address) return "–";
  return pod ? { text: pod, about: address } : address;
}

// grouped makes one mark of the changes that are near each other, so that no symbol is above another one.
function grouped(answer, changes) {
  const places = Math.min(60, Math.max(6, Math.floor(document.getElementById("main").clientWidth / 34)));
  const start = Date.parse(answer.from), length = Date.parse(answer.to) - start, at = new Map();
  for (const row of changes) {
    const place = Math.floor((places * (Date.parse(row.at) - start)) / length);
    at.set(place, [...(at.get(place) || []), row]);
  }
  return [...at.entries()].map(([place, all]) => {
    const first = all.find((row) => row.change.warning) || all[0];
    const texts = all.slice(0, 4).map((row) => `${clock(row.at)} ${row.what}`);
    if (all.length > 4) texts.push(`and ${all.length - 4} more`);
    return { at: Date.parse(first.at), percent: (100 * (place + 0.5)) / places, key: first.key, text: texts.join("\n").replaceAll("\n", "; "),
      mark: all.length > 1 ? `${symbols[first.change.kind] || "•"}${all.length}` : symbols[first.change.kind] || "•",
      kind: first.change.warning ? "warning" : "" };
  });
}

function outcomes(answer, kind) {
  const all = Object.entries(answer.outcomes).sort((a, b) => b[1] - a[1]);
  const out = [h("strong", {}, `${count(answer.total)} ${words[kind][0]}`), all.length ? ": " : ""];
  all.forEach(([name, n], i) => out.push((i ? ", " : "") + `${count(n)} × ${name}`));
  if (answer.total > answer.endings.length) out.push(`; the latest ${answer.endings.length} are listed`);
  if (Date.parse(answer.known_since) > Date.parse(answer.from) + 1000) {
    out.push(h("span", { class: "quiet" }, ` · records in memory begin at ${clock(answer.known_since)}; connection logs may have earlier ones`));
  }
  return out;
}

// story shows a record as what happened, one step after the other.
function story(page, row) {
  const l = row.record, most = Math.max(l.duration_ms, 0.001);
  return h("div", { class: "story" },
    h("ol", { "aria-label": "What happened" }, row.story.map((step) => h("li", { "data-mark": step.bad ? "bad" : "" },
      h("span", { class: "when" }, when(step)), h("span", { class: "sign", "aria-hidden": "true" }, step.bad && step.kind === "first_byte" ? "✗" : steps[step.kind] || "•"),
      h("span", { class: "what" }, step.text, took(step)), track(step, most)))),
    facts(l), links(page, l, row.node),
    h("details", {}, h("summary", {}, "The record"), h("pre", {}, JSON.stringify(l, null, 2))));
}

function when(step) {
  if (step.at_ms === undefined || step.at_ms === null) return "";
  return (step.about && step.at_ms > 0 ? "≈ " : "+ ") + millis(step.at_ms);
}

function took(step) {
  return step.took_ms ? h("span", { class: "quiet" }, ` · took ${millis(step.took_ms)}`) : "";
}

function track(step, most) {
  const element = h("span", { class: "track", "aria-hidden": "true" });
  if (step.at_ms === undefined || step.at_ms === null) return element;
  const bar = h("span", {});
  bar.style.setProperty("--from", `${Math.min(99, (100 * step.at_ms) / most)}%`);
  bar.style.setProperty("--long", `${Math.min(100, (100 * (step.took_ms || 0)) / most)}%`);
  return fill(element, [bar]);
}

function facts(l) {
  const sent = (from, to) => bytes(from) + (to === undefined ? "" : `, of which ${bytes(to)} were delivered`);
  const all = [
    ["Service", `${l.service} ${l.protocol}, carried by ${l.carried_by}`],
    ["Client", [l.client, l.client_pod, l.client_node].filter(Boolean).join(" · ")],
    ["Dialled", `${l.original_dst} ${l.portal}`],
    ["portald", l.proxy],
    ["Endpoint", [l.endpoint, l.pod, l.node, l.zone].filter(Boolean).join(" · ")],
    ["From the client", sent(l.bytes_from_client, l.bytes_to_endpoint)],
    ["From the endpoint", sent(l.bytes_from_endpoint, l.bytes_to_client)],
    ["Closed first by", [l.closed_by, l.close_type].filter(Boolean).join(", by ")],
    ["TCP to the client", tcp(l.client_tcp)],
    ["TCP to the endpoint", tcp(l.endpoint_tcp)],
    ["Codes", [l.termination, l.flags, l.errno].filter(Boolean).join(" · ")],
    ["Record", `id ${l.id}, began ${moment(l.time)}`],
  ];
  return h("dl", { class: "facts" }, all.filter(([, value]) => value).map(([name, value]) =>
    h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

function tcp(t) {
  return t ? `round trip ${millis(t.rtt_ms)} ± ${millis(t.rttvar_ms)}, ${plural(t.retransmits, "segment")} sent again` : "";
}

function links(page, l, node) {
  return h("p", { class: "links" },
    l.service ? h("a", { href: `#/service/${encodeURIComponent(l.service)}/${encodeURIComponent(l.protocol)}` }, "The Service") : "",
    l.endpoint ? explainLink(page, l.endpoint, "Explain the endpoint", node) : "",
    l.client ? explainLink(page, "client/" + l.client.replace(/:\d+$/, "").replace(/^\[|\]$/g, ""), "Explain the client", node) : "");
}

function changed(row) {
  const c = row.change;
  const all = [["Kind", c.kind], ["Service", c.service], ["Endpoint", c.endpoint], ["Pod", c.pod], ["What", c.what],
    ["Before", c.old], ["Now", c.new], ["Noticed by", c.portald_nodes.join(", ")], ["At", moment(c.time)]];
  return h("div", { class: "story" }, h("dl", { class: "facts" }, all.filter(([, value]) => value).map(([name, value]) =>
    h("div", {}, h("dt", {}, name), h("dd", {}, value)))));
}
