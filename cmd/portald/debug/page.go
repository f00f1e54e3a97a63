package debug

import (
	"html"
	"strings"

	"github.com/portald/portald/platform/printable"
)

// page writes HTML. Names of pods and texts of errors are anybody's: text is the only way of data onto the page. It has
// no script and refers to no other file, so that it can be attached to a ticket. html/template would do the same, and
// makes the program larger by what keeps the linker from leaving out methods.
type page struct{ strings.Builder }

// text writes data.
func (p *page) text(data string) { p.WriteString(html.EscapeString(printable.Text(data))) }

// element writes data in an element, whose tag is this program's own.
func (p *page) element(tag, data string) {
	p.WriteString("<" + tag + ">")
	p.text(data)
	name, _, _ := strings.Cut(tag, " ")
	p.WriteString("</" + name + ">")
}

const pageBegin = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<style>
:root { --ink: #1c2127; --faint: #5f6b7a; --line: #d8dee6; --paper: #fff; --band: #f5f7fa; --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e3e8ee; --faint: #97a3b1; --line: #343c46; --paper: #14181d; --band: #1b2026; --bad: #ff8a80; }
}
body { margin: 2rem auto; padding: 0 1rem; max-width: 80rem; color: var(--ink); background: var(--paper);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: 0 0 .5rem; }
h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
p { margin: .25rem 0; }
.faint { color: var(--faint); }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th, td { padding: .35rem .7rem; text-align: left; vertical-align: top; border-top: 1px solid var(--line); }
thead th { border-top: 0; background: var(--band); color: var(--faint); font-weight: 600; white-space: nowrap; }
td { font-family: ui-monospace, monospace; overflow-wrap: anywhere; }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
td:first-child:not(:only-child) { white-space: nowrap; }
tr.bad td:first-child:not(:only-child) { color: var(--bad); font-weight: 600; }
tr.bad td:first-child::before { content: "✗ "; color: var(--bad); }
@media print {
  :root { --ink: #000; --faint: #444; --line: #bbb; --paper: #fff; --band: #f2f2f2; --bad: #900; }
  body { margin: 0; max-width: none; font-size: 11px; }
  table { font-size: 9px; }
  .wide { overflow: visible; }
  thead { display: table-header-group; }
  tr, h2 { break-inside: avoid; }
  h2 { break-after: avoid; }
}
</style>
`

// html is the document as a page.
func (d *document) html() string {
	p := &page{}
	p.WriteString(pageBegin)
	p.element("title", d.title)
	p.WriteString("\n<body>\n")
	p.element("h1", d.title)
	for i, f := range d.facts {
		p.element([]string{"p", `p class="faint"`}[min(i, 1)], f)
	}
	for i := range d.sections {
		p.section(&d.sections[i])
	}
	p.WriteString("\n<p class=\"faint\">Made by portald debug. Times are UTC.</p>\n</body>\n</html>\n")
	return p.String()
}

func (p *page) section(s *section) {
	p.WriteString("\n<section>\n")
	p.element("h2", s.title)
	if len(s.rows) == 0 {
		p.element(`p class="faint"`, s.empty)
	} else {
		p.table(s)
	}
	for _, n := range s.notes {
		p.element(`p class="faint"`, n)
	}
	p.WriteString("\n</section>")
}

func (p *page) table(s *section) {
	p.WriteString("\n<div class=\"wide\"><table>\n<thead><tr>")
	for _, c := range s.columns {
		p.element("th"+c.class(), c.name)
	}
	p.WriteString("</tr></thead>\n<tbody>\n")
	for _, r := range s.rows {
		p.WriteString([]string{"<tr>", `<tr class="bad">`}[one(r.bad)])
		for i, c := range r.cells {
			p.element("td"+s.columns[i].class(), c)
		}
		p.WriteString("</tr>\n")
	}
	p.WriteString("</tbody>\n</table></div>\n")
}

// class is the attribute of a cell.
func (c column) class() string {
	if c.number {
		return ` class="number"`
	}
	return ""
}
