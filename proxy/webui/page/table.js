// A table whose rows are kept from one answer to the next, so that the focus, what is open and the place on the page
// stay.

import { clean, fill, h, say } from "./dom.js";

// Table has columns {id, name, about, number, wide, whole, long, sort, cell(row) → text or {text, mark, about, href}, draw(cell, row)}.
// The first column of a row is what is focused: a link if open(row) is an address, a button if details(row) makes
// what is shown below it.
export class Table {
  constructor({ label, columns, key, open, details, empty, sorted, onsort }) {
    Object.assign(this, { columns, key, open, details, onsort });
    this.rows = new Map();
    this.opened = new Set();
    this.heads = columns.map((c) => this.head(c));
    this.body = h("tbody", { role: "rowgroup" });
    this.none = h("p", { class: "none" }, empty);
    this.element = h("div", { class: "table" },
      h("table", { role: "table", "aria-label": label },
        h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, this.heads)), this.body),
      this.none);
    this.sort(sorted);
  }

  head(column) {
    const cell = h("th", { role: "columnheader", scope: "col", class: column.number ? "number" : null,
      title: column.about });
    if (!column.sort || !this.onsort) return fill(cell, [column.name]);
    return fill(cell, [h("button", { type: "button", onclick: () => this.onsort(column.sort) }, column.name)]);
  }

  // sort marks the column that rows are sorted by.
  sort(by) {
    this.columns.forEach((c, i) => {
      if (c.sort && c.sort === by) this.heads[i].setAttribute("aria-sort", c.sort === "name" ? "ascending" : "descending");
      else this.heads[i].removeAttribute("aria-sort");
    });
  }

  update(rows) {
    const before = this.rows;
    this.rows = new Map();
    let place = this.body.firstChild;
    const put = (element) => {
      if (place === element) place = place.nextSibling;
      else this.body.insertBefore(element, place);
    };
    for (const row of rows) {
      const key = this.key(row);
      if (this.rows.has(key)) continue;
      const line = before.get(key) || this.line(key);
      this.rows.set(key, line);
      this.write(line, row);
      put(line.element);
      if (line.more) put(line.more);
    }
    for (const [key, line] of before) {
      if (this.rows.has(key)) continue;
      line.element.remove();
      line.more?.remove();
      this.opened.delete(key);
    }
    this.none.hidden = rows.length > 0;
    this.element.firstChild.hidden = rows.length === 0;
  }

  line(key) {
    const line = { cells: [] };
    line.handle = this.open ? h("a", { class: "handle", "data-row": "" })
      : this.details ? h("button", { type: "button", class: "handle", "data-row": "", "aria-expanded": "false",
        onclick: () => this.toggle(key) })
        : h("span", { class: "handle", "data-row": "", tabindex: "-1" });
    line.cells = this.columns.map((c, i) => {
      const content = i === 0 ? line.handle : h("span");
      return h("td", { role: "cell", class: c.number ? "number" : c.wide ? "wide" : c.whole ? "whole" : c.long ? "long" : c.id === "name" ? "name" : null, "data-name": c.name }, content);
    });
    line.element = h("tr", { role: "row", class: this.open || this.details ? "opens" : null,
      onclick: (event) => {
        if (!event.target.closest("a, button, summary") && !String(getSelection())) line.handle.click();
      } }, line.cells);
    return line;
  }

  write(line, row) {
    line.row = row;
    if (this.open) line.handle.setAttribute("href", this.open(row));
    this.columns.forEach((c, i) => {
      const cell = line.cells[i];
      if (c.draw) {
        c.draw(cell.firstChild, row);
        return;
      }
      let is = c.cell(row);
      if (typeof is !== "object" || is === null) is = { text: is };
      const content = cell.firstChild;
      if (is.href) {
        if (!(content.firstChild instanceof HTMLAnchorElement)) fill(content, [h("a", {})]);
        content.firstChild.setAttribute("href", is.href);
        say(content.firstChild, is.text);
      } else say(content, is.text);
      cell.dataset.mark = is.mark || "";
      cell.classList.toggle("nothing", is.text === "" || is.text === "–");
      if (is.about) cell.title = clean(is.about);
      else cell.removeAttribute("title");
    });
    if (line.more) this.refresh?.(line, row);
  }

  // toggle shows or hides what is below a row.
  toggle(key, show = !this.opened.has(key)) {
    const line = this.rows.get(key);
    if (!line) return;
    line.handle.setAttribute("aria-expanded", String(show));
    line.more?.remove();
    line.more = null;
    this.opened.delete(key);
    if (!show) return;
    this.opened.add(key);
    line.more = h("tr", { class: "more", role: "row" },
      h("td", { role: "cell", colspan: String(this.columns.length) }, this.details(line.row)));
    line.element.after(line.more);
  }

  // close closes the row that has the focus, and tells whether one was open.
  close() {
    for (const key of this.opened) {
      const line = this.rows.get(key);
      if (line.element.contains(document.activeElement) || line.more.contains(document.activeElement)) {
        this.toggle(key, false);
        line.handle.focus();
        return true;
      }
    }
    return false;
  }
}
