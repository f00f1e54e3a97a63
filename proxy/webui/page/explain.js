// What a node explains, and the nodes themselves.

import { fill, h, say } from "./dom.js";
import { clock, count, moment, plural, span } from "./format.js";
import { Table } from "./table.js";

const signs = { good: "✓", doubt: "!", wrong: "✗" };

// explainLink leads to what a node explains. Where the page cannot ask for that, it says who can.
// The node that is asked is the one that knows of it; none: the first.
export function explainLink(page, what, text, node = "") {
  return page.about.explain
    ? h("a", { href: "#/explain/" + [what, node].filter(Boolean).map(encodeURIComponent).join("/") }, text)
    : h("span", { class: "quiet" }, text + ": ", h("code", {}, "portald explain " + what));
}

// explain is the view of what one node explains.
export function explain(page, what, wanted = "") {
  const body = h("div", { class: "report", "aria-live": "polite" }, h("p", { class: "quiet" }, "Asking the node …"));
  let node = "";
  const choose = h("select", { onchange: (event) => {
    node = event.target.value;
    fill(body, [h("p", { class: "quiet" }, "Asking the node …")]);
    page.again();
  } });
  return {
    title: "explain " + what, every: 0,
    element: h("section", {}, h("p", { class: "path" }, h("a", { href: "#/services" }, "Services")),
      h("h2", {}, "explain " + what), h("div", { class: "controls" }, h("label", {}, "Node ", choose)), body),
    load: async (get) => {
      const overview = await get("nodes", {});
      page.nodes(overview.nodes);
      if (!choose.children.length) {
        fill(choose, overview.nodes.filter((n) => !n.why).map((n) => h("option", { value: n.portald_node }, n.portald_node)));
        if (overview.nodes.some((n) => !n.why && n.portald_node === wanted)) choose.value = wanted;
        node = choose.value;
      }
      return get("explain", { what, node });
    },
    show(report) {
      fill(body, [line(report.verdict, "verdict"), report.nearest ? h("p", {}, "Did you mean: " + report.nearest.join(", ")) : "",
        report.next ? h("p", {}, "Next: ", h("code", {}, report.next)) : "",
        report.sections.map((s) => h("section", {}, h("h3", {}, s.title), s.lines.map((l) => line(l)))),
        h("p", { class: "quiet" }, `of ${report.node}, at ${clock(report.time)}; portald explain ${what} prints the same`)]);
    },
  };
}

function line(l, kind = "") {
  const mark = { good: "good", doubt: "doubt", wrong: "bad" }[l.status] || "";
  return h("div", { class: "line " + kind, "data-mark": mark }, h("span", { class: "sign" }, signs[l.status] || ""),
    h("div", {}, l.text, (l.details || []).map((d) => h("div", { class: "quiet" }, d))));
}

// nodes is the view of the nodes.
export function nodes(page) {
  const table = new Table({
    label: "Nodes", key: (n) => n.portald_node, empty: "No node.",
    columns: [
      { id: "name", name: "Node", cell: (n) => n.portald_node },
      { id: "state", name: "State", wide: true, cell: (n) => (n.why ? { text: "✗ " + n.why, mark: "bad" }
        : !n.heard ? { text: "… asking", mark: "doubt" }
          : n.ready ? { text: "✓ answers", mark: "good" } : { text: "! answers, not ready yet", mark: "doubt" }) },
      { id: "mode", name: "Mode", cell: (n) => n.mode || "–" },
      { id: "writer", name: "Rules by", cell: (n) => n.writer || "–" },
      { id: "version", name: "Version", wide: true, cell: (n) => n.version || "–" },
      { id: "heard", name: "Heard", number: true, cell: (n) => (n.heard ? { text: span((Date.now() - Date.parse(n.heard)) / 1000) + " ago",
        about: moment(n.heard) } : "–") },
      { id: "records", name: "Records since", number: true, cell: (n) => (n.records_since
        ? { text: clock(n.records_since), about: moment(n.records_since) } : "–") },
    ],
  });
  const summary = h("p", { class: "summary" });
  return {
    title: "Nodes", every: 2000, find: "node", tables: [table],
    element: h("section", {}, h("h2", { class: "unseen" }, "Nodes"), summary, table.element),
    load: (get) => get("nodes", {}),
    show(answer) {
      page.nodes(answer.nodes);
      const text = page.text().toLowerCase();
      const all = answer.nodes.filter((n) => n.portald_node.toLowerCase().includes(text));
      const well = all.filter((n) => n.heard && !n.why).length;
      say(summary, `${count(well)} of ${plural(all.length, "node")} ${well === 1 ? "answers" : "answer"}`);
      table.update(all.sort((a, b) => Number(!a.why) - Number(!b.why))); // who does not answer comes first
    },
  };
}
