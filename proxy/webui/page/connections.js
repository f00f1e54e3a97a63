// Open connections.

import { h } from "./dom.js";
import { explainLink } from "./explain.js";
import { bytes, count, millis, moment, plural, span } from "./format.js";
import { who } from "./failures.js";
import { stateText } from "./service.js";
import { Table } from "./table.js";

// connections is the view of all, of one Service, or of one of its endpoints.
export function connections(page, of = {}) {
  let sorted = "bytes", now = 0;
  const ago = (at) => (at && !at.startsWith("0001") ? span((now - Date.parse(at)) / 1000) : "–");
  const rtt = (c) => Math.max(c.client_tcp?.rtt_ms || 0, c.endpoint_tcp?.rtt_ms || 0) || null;
  const table = new Table({
    label: "Open connections", sorted, empty: "No open connection matches.",
    details: (c) => details(page, c),
    key: (c) => [c.portald_node, c.id, c.protocol, c.client, c.original_dst].join(" "),
    onsort: (by) => {
      sorted = by;
      table.sort(by);
      page.again();
    },
    columns: [
      { id: "client", name: "Client", wide: true, cell: (c) => who(c.client, c.client_pod) },
      { id: "service", name: "Service", long: true, cell: (c) => ({ text: c.service,
        href: `#/service/${encodeURIComponent(c.service)}/${encodeURIComponent(c.protocol)}` }) },
      { id: "endpoint", name: "Endpoint", wide: true, cell: (c) => who(c.endpoint, c.pod) },
      { id: "state", name: "State", cell: (c) => ({ text: c.state.replaceAll("_", " "),
        mark: ["dialing", "waiting"].includes(c.state) ? "doubt" : "" }) },
      { id: "age", name: "Age", number: true, sort: "age", cell: (c) => ({ text: ago(c.start), about: moment(c.start) }) },
      { id: "idle", name: "Idle", number: true, sort: "idle", about: "since bytes last moved", cell: (c) => ago(c.last_moved) },
      { id: "up", name: "↑ Up", number: true, sort: "bytes", about: "from the client", cell: (c) => bytes(c.bytes_from_client) },
      { id: "down", name: "↓ Down", number: true, about: "from the endpoint", cell: (c) => bytes(c.bytes_from_endpoint) },
      { id: "rtt", name: "Round trip", number: true, sort: "rtt", about: "of the slower side", cell: (c) => millis(rtt(c)) },
      { id: "dials", name: "Dials", number: true, cell: (c) => ({ text: count(c.attempts), mark: c.attempts > 1 ? "doubt" : "" }) },
      { id: "node", name: "Node", whole: true, cell: (c) => c.portald_node },
    ],
  });
  const more = h("p", { class: "quiet" });
  const title = of.service ? `Connections of ${of.endpoint ? of.endpoint + " in " : ""}${of.service}` : "Connections";
  return {
    title, every: 2000, find: "Service, address, CIDR or pod/NAME", tables: [table],
    element: h("section", {}, of.service ? h("p", { class: "path" }, h("a", { href: "#/services" }, "Services")) : "",
      h("h2", { class: of.service ? null : "unseen" }, title), table.element, more),
    load: (get) => get("connections", { q: page.text(), sort: sorted, service: of.service, endpoint: of.endpoint }),
    show(answer) {
      now = Date.parse(answer.now);
      table.update(answer.connections);
      more.textContent = answer.connections.length >= answer.limit
        ? `The first ${answer.limit} by ${{ bytes: "bytes", age: "age", idle: "idle time", rtt: "round trip" }[sorted]}: filter to see others.`
        : plural(answer.connections.length, "connection");
      page.away(answer.away);
    },
  };
}

function details(page, c) {
  const tcp = (t) => (t ? `round trip ${millis(t.rtt_ms)} ± ${millis(t.rttvar_ms)}, ${plural(t.retransmits, "segment")} sent again, ${count(t.lost)} lost now` : "");
  const all = [
    ["Client", [c.client, c.client_pod, c.client_node].filter(Boolean).join(" · ")],
    ["Dialled", `${c.original_dst} ${c.portal}`], ["portald", c.proxy],
    ["Endpoint", [c.endpoint, c.pod, c.node].filter(Boolean).join(" · ")],
    ["The endpoint is", c.endpoint_state ? stateText(c.endpoint_state) : ""],
    ["Carried by", c.carried_by], ["First byte", c.first_byte_ms === null ? "none yet" : "after " + millis(c.first_byte_ms)],
    ["From the client", `${bytes(c.bytes_from_client)} read, ${bytes(c.bytes_to_endpoint)} sent on`],
    ["From the endpoint", `${bytes(c.bytes_from_endpoint)} read, ${bytes(c.bytes_to_client)} sent on`],
    ["TCP to the client", tcp(c.client_tcp)], ["TCP to the endpoint", tcp(c.endpoint_tcp)],
    ["Began", moment(c.start)], ["Id", c.id ? String(c.id) : ""],
  ];
  return h("div", { class: "story" }, h("dl", { class: "facts" }, all.filter(([, value]) => value)
    .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
  h("p", { class: "links" }, c.id ? explainLink(page, String(c.id), "Explain it", c.portald_node) : ""));
}
