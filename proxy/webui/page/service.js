// One Service: its endpoints side by side over all nodes.

import { spark } from "./chart.js";
import { fill, h } from "./dom.js";
import { explainLink } from "./explain.js";
import { bound, clock, count, millis, moment, part, plural, rate } from "./format.js";
import { failures } from "./failures.js";
import { figure, modeText } from "./services.js";
import { Table } from "./table.js";

const signs = { used: "●", drained: "◌", ejected: "✗", terminating: "▽", not_ready: "○", removed: "−", other_node: "·",
  not_hinted: "·", other_family: "·" };

const marks = { used: "good", drained: "doubt", ejected: "bad", terminating: "doubt", not_ready: "doubt", removed: "doubt" };

export function stateText(state) {
  return `${signs[state] || "•"} ${state.replaceAll("_", " ")}`;
}

// service is the view of one.
export function service(page, name, protocol) {
  const what = failures(page, { service: name });
  const head = h("div", {}), nodes = h("div", {}), matrix = h("div", {}), more = h("p", { class: "quiet" });
  const table = new Table({ label: "Endpoints", columns: columns(), key: (e) => e.address, empty: "No endpoint.",
    open: (e) => "#/connections/" + encodeURIComponent(name) + "/" + encodeURIComponent(e.address) });
  let asked = 0, story = null, all = false, last = null;
  const other = () => {
    all = !all;
    drawMatrix(matrix, last, all, other);
    matrix.querySelector("button").focus();
  };
  return {
    title: name, every: 2000, tables: [table, ...what.tables],
    element: h("section", {},
      h("p", { class: "path" }, h("a", { href: "#/services" }, "Services")), h("h2", {}, name, " ", h("small", {}, protocol)),
      head, nodes, h("h3", {}, "Endpoints"), table.element, more, matrix, what.element),
    async load(get) {
      const answer = await get("service", { name, protocol });
      if (asked++ % 2 === 0) story = await what.load(get);
      return { answer, story };
    },
    again: () => { asked = 0; },
    show({ answer, story }) {
      fill(head, summary(page, name, answer));
      fill(nodes, [perNode(answer)]);
      table.update(answer.endpoints);
      fill(more, [answer.total > answer.endpoints.length
        ? `${plural(answer.total - answer.endpoints.length, "more endpoint")}, of which none failed more` : ""]);
      last = answer;
      drawMatrix(matrix, answer, all, other);
      what.show(story);
      page.away(answer.away);
    },
  };
}

function summary(page, name, { status: s, nodes }) {
  const links = h("p", { class: "links" }, explainLink(page, name, "Explain it", troubled(nodes)),
    h("a", { href: "#/connections/" + encodeURIComponent(name) }, "Its connections"));
  if (!s) return [h("p", { class: "warning" }, "✗ No node has it any more."), links];
  const line = h("span", {});
  spark(line, s.begun_line, s.failed_line);
  return [
    h("div", { class: "figures" },
      figure(s.modes.join(", "), modeText(s.modes, s.mode_from).replace(/^.*?, /, "")),
      figure(`${s.usable ? "" : "✗ "}${usable(s, nodes)} of ${s.endpoints}`, "endpoints usable", s.usable ? "" : "bad"),
      figure(count(s.open), "open"), figure(rate(s.rate), "new/s"),
      figure([count(s.failed), part(s.failed, s.begun)].filter(Boolean).join(" · "), "failed, 5 minutes", s.failed ? "bad" : ""),
      figure(count(s.retries), "retries, 5 minutes", s.retries ? "doubt" : ""),
      figure(bound(s.p99_ms, s.p99_beyond), "first byte, p99"),
      h("div", { class: "figure wide" }, line, h("span", { class: "quiet" }, "new above, failed below"))),
    links,
  ];
}

// troubled is the node that knows most of what is wrong.
function troubled(nodes) {
  return nodes.find((n) => n.problems?.length)?.portald_node;
}

// usable is how many endpoints clients are led to: of the node with the fewest, and of the one with the most.
function usable(s, nodes) {
  const most = Math.max(s.usable, ...nodes.map((n) => n.usable));
  return most > s.usable ? `${s.usable} to ${most}` : String(s.usable);
}

// perNode says why it is as it is: what nodes tell alike is said once.
function perNode({ nodes }) {
  const alike = new Map();
  for (const n of nodes) {
    const key = JSON.stringify([n.mode, n.mode_from, n.problems, (n.frontends || []).map((f) => [f.address, f.kind, f.target, f.holder])]);
    alike.set(key, [...(alike.get(key) || []), n]);
  }
  return h("div", { class: "nodes" }, [...alike.values()].map((same) => {
    const n = same[0];
    const who = alike.size === 1 ? (nodes.length === 1 ? "node " + n.portald_node : "all nodes")
      : same.length > 3 ? plural(same.length, "node") : same.map((s) => s.portald_node).join(", ");
    return h("div", { class: "node" },
      h("p", {}, h("strong", {}, who), `: ${modeText([n.mode], [n.mode_from])}${n.mode_from === "annotation" ? " portald.io/mode" : ""}`),
      (n.problems || []).map((text) => h("p", { class: "warning" }, "✗ " + text)),
      h("ul", { class: "frontends" }, (n.frontends || []).map((f) => h("li", {}, h("code", {}, f.address), ` ${f.kind} `,
        h("span", { class: f.holder || f.target === "reject" || f.target === "drop" ? "warning" : "quiet" },
          f.holder ? `✗ held by ${f.holder}` : targetText(f))))));
  }));
}

function targetText(f) {
  return { redirect: `→ portald's port ${f.port}`, spread: "→ the endpoints, by the kernel", reject: "✗ clients are refused",
    drop: "✗ packets are dropped", none: "✗ no rule leads there" }[f.target] || f.target;
}

// quantile is one of all nodes, and says which node has the longest.
function quantile(e, field) {
  const on = e.on.filter((n) => n[field] !== null).sort((a, b) => b[field] - a[field]);
  const about = on.length > 1 ? `of ${plural(on.length, "node")}; the longest: ${millis(on[0][field])} on ${on[0].portald_node}` : null;
  return { text: millis(e[field]), about };
}

// states are those that nodes tell of an endpoint, with how many nodes tell each.
function states(e) {
  const all = new Map();
  for (const on of e.on) all.set(on.state, (all.get(on.state) || 0) + 1);
  const list = [...all.entries()].sort((a, b) => rank(b[0]) - rank(a[0]));
  return { text: list.map(([s, n]) => stateText(s) + (all.size > 1 ? ` × ${n}` : "")).join(", "), mark: marks[list[0][0]] || "" };
}

function rank(state) {
  return ["bad", "doubt"].includes(marks[state]) ? (marks[state] === "bad" ? 2 : 1) : 0;
}

function lastError(e) {
  const all = e.on.filter((on) => on.last_error).sort((a, b) => Date.parse(b.last_error_at) - Date.parse(a.last_error_at));
  if (!all.length) return "";
  const [last] = all, on = e.on.length > 1 ? ` on ${last.portald_node}` : "";
  return { text: `${last.last_error}, ${clock(last.last_error_at)}${on}`, about: moment(last.last_error_at) };
}

const lately = "of the last thousand or so of each node, added up";

function columns() {
  return [
    { id: "address", name: "Endpoint", cell: (e) => e.address },
    { id: "pod", name: "Pod", wide: true, cell: (e) => ({ text: e.pod || "–", about: e.zone }) },
    { id: "node", name: "On node", whole: true, cell: (e) => e.node || "–" },
    { id: "state", name: "State", whole: true, cell: states },
    { id: "open", name: "Open", number: true, cell: (e) => count(e.open) },
    { id: "dials", name: "Dials", number: true, about: "since the daemons began", cell: (e) => count(e.dials) },
    { id: "failures", name: "Failed", number: true, about: "dials and connections that the endpoint failed, since the daemons began",
      cell: (e) => ({ text: [count(e.failures), part(e.failures, e.dials)].filter(Boolean).join(" · "), mark: e.failures ? "bad" : "" }) },
    { id: "dial", name: "Connect p99", number: true, about: lately, cell: (e) => quantile(e, "dial_p99_ms") },
    { id: "p50", name: "First byte p50", number: true, about: lately, cell: (e) => quantile(e, "first_byte_p50_ms") },
    { id: "p99", name: "First byte p99", number: true, about: lately, cell: (e) => quantile(e, "first_byte_p99_ms") },
    { id: "error", name: "Last error", wide: true, cell: lastError },
  ];
}

// fewNodes is how many nodes are side by side, unless all are asked for: those with most failures, then the slowest.
const fewNodes = 12;

// ranked are the nodes in that order.
function ranked(endpoints, nodes) {
  const failed = new Map(), slowest = new Map();
  for (const on of endpoints.flatMap((e) => e.on)) {
    failed.set(on.portald_node, (failed.get(on.portald_node) || 0) + (on.failures || 0));
    slowest.set(on.portald_node, Math.max(slowest.get(on.portald_node) || 0, on.first_byte_p99_ms || 0));
  }
  const by = (of, a, b) => (of.get(b) || 0) - (of.get(a) || 0);
  return nodes.map((n) => n.portald_node).sort((a, b) => by(failed, a, b) || by(slowest, a, b));
}

// drawMatrix shows endpoints by nodes, if there are several.
function drawMatrix(element, { endpoints, nodes }, all, choose) {
  const some = nodes.length > fewNodes && !all;
  const names = some ? ranked(endpoints, nodes).slice(0, fewNodes) : nodes.map((n) => n.portald_node);
  const key = JSON.stringify([names, nodes.length, endpoints]);
  if (element.dataset.drawn === key) return;
  element.dataset.drawn = key;
  if (names.length < 2 || !endpoints.length) {
    fill(element, []);
    return;
  }
  fill(element, [h("h3", {}, "As each node sees them"),
    h("p", { class: "quiet" }, "open · dials, and what failed of them · half and 99 % of the first bytes took no longer"),
    nodes.length > fewNodes ? h("p", {}, some
      ? `${fewNodes} of ${nodes.length} nodes: those with most failures, then the slowest. ` : "",
    h("button", { type: "button", class: "plain", onclick: choose }, some ? `Show all ${nodes.length}` : `Show ${fewNodes}`)) : "",
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Endpoints by nodes" },
      h("table", { class: "matrix" },
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Endpoint"), names.map((n) => h("th", { scope: "col" }, n)))),
        h("tbody", {}, endpoints.map((e) => h("tr", {}, h("th", { scope: "row" }, e.pod || e.address),
          names.map((n) => cellOf(e.on.find((on) => on.portald_node === n))))))))]);
}

function cellOf(on) {
  if (!on) return h("td", { class: "nothing" }, "–");
  const failed = on.failures ? h("span", { class: "warning" }, ` ✗ ${count(on.failures)}`) : "";
  const mark = marks[on.state] || "";
  return h("td", { "data-edge": on.failures ? "bad" : mark, title: on.last_error || "" },
    h("span", { class: "state", "data-mark": mark }, stateText(on.state)),
    h("span", { class: "small" }, `${count(on.open)} open · ${count(on.dials)} dials`, failed),
    h("span", { class: "small" }, times(on)));
}

function times(on) {
  return on.first_byte_p99_ms === null ? millis(null) : `p50 ${millis(on.first_byte_p50_ms)} · p99 ${millis(on.first_byte_p99_ms)}`;
}
