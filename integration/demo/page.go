//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// page writes the output: with pauses and colours on a terminal, plain and without pauses elsewhere.
type page struct {
	out   *os.File
	width int
	live  bool // a terminal: lines can be overwritten
	ink   ink
	pace  bool
}

// Widths in columns. Wider lines are hard to read; narrower ones cannot hold an address and its port.
const (
	usualWidth = 100
	leastWidth = 60
	mostWidth  = 130
)

// newPage honours NO_COLOR (no-color.org) and TERM=dumb.
func newPage(out *os.File, fast bool) *page {
	p := &page{out: out, width: usualWidth}
	size, err := unix.IoctlGetWinsize(int(out.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return p // no terminal
	}
	if size.Col > 0 {
		p.width = min(max(int(size.Col), leastWidth), mostWidth)
	}
	p.live = os.Getenv("TERM") != "dumb"
	p.ink = ink(p.live && os.Getenv("NO_COLOR") == "")
	p.pace = !fast
	return p
}

// rest pauses for the reader.
func (p *page) rest(ctx context.Context, d time.Duration) {
	if p.pace {
		_ = pause(ctx, d) // the caller's next operation fails if ctx has ended
	}
}

// headline prints the title of a scene.
func (p *page) headline(n, of int, title string) {
	head := fmt.Sprintf(" %d/%d  %s ", n, of, title)
	rule := strings.Repeat("─", max(3, p.width-utf8.RuneCountInString(head)-3))
	fmt.Fprintf(p.out, "\n%s%s%s\n", p.ink.dim("──"), p.ink.bold(head), p.ink.dim(rule))
}

// say prints a paragraph.
func (p *page) say(text string) {
	for _, line := range wrap(text, p.width-2) {
		fmt.Fprintln(p.out, "  "+line)
	}
	fmt.Fprintln(p.out)
}

// line prints one line without wrapping it.
func (p *page) line(format string, args ...any) {
	text := strings.TrimRight(fmt.Sprintf("  "+format, args...), " ")
	fmt.Fprintln(p.out, text)
}

// record prints a record of portald in several lines: the path, the outcome, the failed attempts.
func (p *page) record(text string) {
	for i, part := range fold(text) {
		for j, line := range wrap(part, p.width-8) {
			indent := ""
			if i+j > 0 {
				indent = "  "
			}
			fmt.Fprintln(p.out, p.ink.dim("   │ ")+indent+p.ink.record(line))
		}
	}
}

// fold splits a record at double spaces, which separate path, outcome and failed attempts.
func fold(record string) []string {
	path, end, _ := strings.Cut(record, "  ")
	end, tried, _ := strings.Cut(end, "  [")
	parts := []string{strings.ReplaceAll(path, "→ ", "→\u00a0"), end}
	for _, t := range strings.Split(tried, "  [") {
		if t != "" {
			parts = append(parts, "["+t)
		}
	}
	return parts
}

// check prints the result of a passed scene.
func (p *page) check(format string, args ...any) {
	for i, line := range wrap(fmt.Sprintf(format, args...), p.width-4) {
		mark := p.ink.good("✓")
		if i > 0 {
			mark = " "
		}
		fmt.Fprintf(p.out, "  %s %s\n", mark, p.ink.bold(line))
	}
}

// wrap breaks text at single spaces into lines of at most width columns. Two spaces within a line stay two.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.SplitSeq(text, " ") {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, strings.TrimSpace(line))
			line = word
			continue
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// end prints that all scenes passed, and the next steps.
func (p *page) end(scenes int, took time.Duration) {
	fmt.Fprintf(p.out, "\n%s\n\n", p.ink.good(fmt.Sprintf("All %d scenes passed in %.1f s.", scenes,
		took.Seconds())))
	p.say("The demo changed nothing on this machine: its network, rules and processes were in namespaces that no " +
		"longer exist.")
	p.line("%s", p.ink.bold("Next steps"))
	p.line("  make test                     run all tests on this kernel")
	p.line("  bin/portald help flags        list all flags")
	p.line("  README.md                     run portald on a real node:")
	p.line("    kubectl get services,endpointslices,nodes -A -o yaml > cluster.yaml")
	p.line("    sudo bin/portald --manifests cluster.yaml --connection-log -")
}
