//go:build linux

package main

import "strings"

// ink colours text with SGR codes; false leaves it plain.
type ink bool

func (i ink) code(sgr, text string) string {
	if !i || text == "" {
		return text
	}
	return "\x1b[" + sgr + "m" + text + "\x1b[0m"
}

func (i ink) dim(s string) string  { return i.code("2", s) }
func (i ink) bold(s string) string { return i.code("1", s) }
func (i ink) good(s string) string { return i.code("1;32", s) }
func (i ink) bad(s string) string  { return i.code("1;31", s) }
func (i ink) warn(s string) string { return i.code("33", s) }

// pod gives each pod its own colour.
func (i ink) pod(name, text string) string {
	colours := map[string]string{"cart-a": "36", "cart-b": "35", "cart-c": "34"}
	return i.code(colours[name], text)
}

// pods colours the names of pods.
func (i ink) pods(line string) string {
	for _, name := range []string{"cart-a", "cart-b", "cart-c"} {
		line = strings.ReplaceAll(line, "shop/"+name, i.pod(name, "shop/"+name))
	}
	return line
}

// record colours one line of a folded record: the pod, and failed attempts.
func (i ink) record(line string) string {
	line = strings.ReplaceAll(line, "\u00a0", " ")
	if strings.HasPrefix(line, "[tried") {
		return i.warn(line)
	}
	for _, name := range []string{"cart-a", "cart-b", "cart-c"} {
		if before, found := strings.CutSuffix(line, "shop/"+name); found {
			return before + i.pod(name, "shop/"+name)
		}
	}
	return line
}
