// Drawings: begun above the line, failed below it, so that they differ without colours.

import { fill, h, svg } from "./dom.js";
import { clock, count, plural } from "./format.js";

// spark draws a line of the table of Services.
export function spark(cell, begun, failed) {
  const key = JSON.stringify([begun, failed]);
  if (cell.dataset.drawn === key) return;
  cell.dataset.drawn = key;
  if (!begun) {
    fill(cell, [h("span", { class: "quiet" }, "–")]);
    return;
  }
  const most = Math.max(1, ...begun);
  const worst = Math.max(1, ...failed);
  const total = failed.reduce((sum, n) => sum + n, 0);
  const bars = [];
  begun.forEach((n, i) => {
    if (n) bars.push(bar("begun", i * 2, 16 - Math.max(1, (15 * n) / most), Math.max(1, (15 * n) / most)));
  });
  failed.forEach((n, i) => {
    if (n) bars.push(bar("failed", i * 2, 17, Math.max(3, (7 * n) / worst)));
  });
  fill(cell, [svg("svg", { viewBox: "0 0 120 25", preserveAspectRatio: "none", class: "spark", role: "img",
    "aria-label": `new connections in 5 s: ${count(begun.at(-1))} now, ${count(most)} at most; ${count(total)} failed` },
  svg("path", { d: "M0 16.5H120", class: "axis" }), ...bars)]);
}

function bar(kind, x, y, height) {
  return svg("rect", { x, y, width: 1.6, height, class: kind });
}

// timeline draws counts of failures above a line of time, and changes below it. Each change is {at, percent, mark, text, kind}:
// its line is at the time, and its symbol near it.
export function timeline({ from, to, bins, unknownUntil, marks, what, pick }) {
  const wide = 1000, high = 84, base = 78, start = Date.parse(from), end = Date.parse(to);
  const x = (at) => (wide * (at - start)) / (end - start);
  const most = Math.max(1, ...bins);
  const step = wide / bins.length;
  const drawn = [];
  let unknown = "";
  if (unknownUntil > start) {
    unknown = h("div", { class: "nothingknown", "aria-hidden": "true" }, "no records kept");
    unknown.style.setProperty("--long", `${Math.min(100, x(unknownUntil) / 10)}%`);
    drawn.push(svg("rect", { x: 0, y: 4, width: Math.min(wide, x(unknownUntil)), height: base - 4, class: "unknown" },
      svg("title", {}, "a node's memory has no records of this time")));
  }
  bins.forEach((n, i) => {
    if (!n) return;
    const tall = Math.max(4, ((base - 8) * n) / most);
    const at = start + ((end - start) * i) / bins.length;
    drawn.push(svg("rect", { x: i * step + 1, y: base - tall, width: step - 2, height: tall, class: "failed" },
      svg("title", {}, `${clock(at)}: ${count(n)} ${what}`)));
  });
  for (const mark of marks) {
    const at = x(mark.at);
    drawn.push(svg("path", { d: `M${at} 4V${high}`, class: "change " + mark.kind }, svg("title", {}, mark.text)));
  }
  const total = bins.reduce((sum, n) => sum + n, 0);
  const ticks = h("div", { class: "ticks", "aria-hidden": "true" },
    [0, 1, 2, 3, 4].map((i) => h("span", {}, clock(start + ((end - start) * i) / 4))));
  return h("figure", { class: "timeline" },
    h("div", { class: "scale", "aria-hidden": "true" }, total ? `${count(most)} in the highest bar` : ""), unknown,
    svg("svg", { viewBox: `0 0 ${wide} ${high}`, preserveAspectRatio: "none", role: "img",
      "aria-label": `${count(total)} ${what} from ${clock(start)} to ${clock(end)}, ${plural(marks.length, "change")}` },
    svg("path", { d: `M0 ${base}H${wide}`, class: "axis" }), ...drawn),
    h("div", { class: "marks" }, marks.map((mark) => flag(mark, pick))), ticks);
}

// flag is the symbol of a change below the line.
function flag(mark, pick) {
  const element = h("button", { type: "button", class: "flag " + mark.kind, title: mark.text, "aria-label": mark.text,
    tabindex: "-1", onclick: () => pick?.(mark) }, mark.mark);
  element.style.setProperty("--at", `${mark.percent}%`);
  return element;
}
