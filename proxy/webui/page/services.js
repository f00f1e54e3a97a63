// The Services of the cluster.

import { spark } from "./chart.js";
import { fill, h, say } from "./dom.js";
import { bound, clock, count, none, part, plural, rate } from "./format.js";
import { Table } from "./table.js";

export function serviceAddress(s) {
  return `#/service/${encodeURIComponent(s.name || s.service)}/${encodeURIComponent(s.protocol)}`;
}

// modeText says the mode, and where it comes from.
export function modeText(modes, from) {
  const why = { annotation: "its annotation", default: "the default" };
  return `${modes.join(" and ")}, by ${from.map((f) => why[f] || f).join(" and ")}`;
}

function columns() {
  return [
    { id: "name", name: "Service", sort: "name", cell: (s) => ({ text: s.name, about: s.name }) },
    { id: "protocol", name: "Proto", cell: (s) => s.protocol },
    { id: "mode", name: "Mode", cell: (s) => ({ text: s.modes.join(", "), about: modeText(s.modes, s.mode_from) }) },
    { id: "usable", name: "Usable", number: true, about: "endpoints that clients are led to, of all; of the node with the fewest",
      cell: (s) => ({ text: `${s.usable}/${s.endpoints}`, mark: s.usable === 0 ? "bad" : "" }) },
    { id: "open", name: "Open", number: true, sort: "open", about: "open connections and UDP sessions", cell: (s) => count(s.open) },
    { id: "rate", name: "New/s", number: true, sort: "rate", about: "new connections a second, of the last 30 s", cell: (s) => rate(s.rate) },
    { id: "failed", name: "Failed", number: true, sort: "failed", about: "connections that failed, of the last 5 minutes",
      cell: (s) => ({ text: [count(s.failed), part(s.failed, s.begun)].filter(Boolean).join(" · "), mark: s.failed ? "bad" : "",
        about: s.failed_ever === null ? "not known" : plural(s.failed_ever, "failure") + " since the daemons began" }) },
    { id: "retries", name: "Retries", number: true, sort: "retries",
      about: "dials that failed and requests that were sent again, of the last 5 minutes",
      cell: (s) => ({ text: count(s.retries), mark: s.retries ? "doubt" : "" }) },
    { id: "p99", name: "p99", number: true, sort: "p99",
      about: "99 of 100 first bytes took no longer, from the connect on, of all nodes and the last 5 minutes",
      cell: (s) => bound(s.p99_ms, s.p99_beyond) },
    { id: "line", name: "5 minutes", about: "above the line new connections, below it failed ones",
      draw: (cell, s) => spark(cell, s.begun_line, s.failed_line) },
    { id: "problem", name: "Problem", wide: true, cell: (s) => problem(s) },
  ];
}

function problem(s) {
  if (!s.problem) return "";
  const some = s.problem_nodes;
  const on = s.nodes < 2 ? "" : some.length === s.nodes ? " (all nodes)"
    : some.length <= 3 ? ` (on ${some.join(", ")})` : ` (on ${count(some.length)} of ${count(s.nodes)} nodes)`;
  return { text: "✗ " + s.problem + on, mark: "bad", about: s.problem_nodes.join(", ") };
}

// services is the view of all.
export function services(page) {
  const head = h("div", { class: "figures" });
  const more = h("p", { class: "quiet" });
  let sorted = "trouble";
  const table = new Table({
    label: "Services", columns: columns(), key: (s) => s.name + "/" + s.protocol, open: serviceAddress,
    empty: "No Service matches.", sorted,
    onsort: (by) => {
      sorted = sorted === by ? "trouble" : by;
      table.sort(sorted);
      page.again();
    },
  });
  return {
    title: "Services", every: 2000, find: "Service or namespace",
    element: h("section", {}, h("h2", { class: "unseen" }, "Services"), head, table.element, more),
    load: (get) => get("overview", { q: page.text(), sort: sorted }),
    show(answer) {
      fill(head, figures(answer));
      const asking = !answer.nodes.some((n) => n.heard || n.why);
      say(table.none, asking ? "Asking the nodes …" : "No Service matches.");
      table.update(answer.services);
      fill(more, [answer.total > answer.services.length
        ? `${plural(answer.total - answer.services.length, "more service port")}: filter by name.` : "",
      answer.left_out ? " There are more service ports than this page remembers: some are left out." : ""]);
      page.nodes(answer.nodes);
      return asking;
    },
  };
}

function figures(answer) {
  const failed = answer.failed.reduce((sum, n) => sum + n, 0);
  const begun = answer.begun.reduce((sum, n) => sum + n, 0);
  const troubled = answer.services.filter((s) => s.problem).length;
  const known = answer.services.map((s) => s.rate).filter((r) => r !== null);
  const line = h("span", {});
  spark(line, answer.begun, answer.failed);
  return [
    figure(count(answer.total), answer.total === 1 ? "service port" : "service ports"),
    figure((troubled ? "✗ " : "✓ ") + count(troubled), "with a problem", troubled ? "bad" : "good"),
    figure(known.length ? rate(known.reduce((sum, r) => sum + r, 0)) : none, "new connections/s"),
    known.length ? figure((failed ? "✗ " : "✓ ") + [count(failed), part(failed, begun)].filter(Boolean).join(" · "),
      "failed since " + clock(answer.since), failed ? "bad" : "good") : figure(none, "failed: not known"),
    h("div", { class: "figure wide" }, line, h("span", { class: "quiet" }, "new above, failed below, 5 minutes")),
  ];
}

export function figure(value, what, mark = "") {
  return h("div", { class: "figure", "data-mark": mark }, h("strong", {}, value), h("span", { class: "quiet" }, what));
}
