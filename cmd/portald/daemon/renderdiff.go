package daemon

import "strings"

// onlyIn returns the lines of rules that others lack, both of the same writer, and the headings, tables, chains and
// sets that these lines stand in.
func onlyIn(rules, others string) string {
	var out strings.Builder
	for _, b := range less(blocks(rules), blocks(others)) {
		b.write(&out)
	}
	return out.String()
}

// block is a line of rules; or a part of them, with the line that begins it and the line that ends it.
type block struct {
	first, last string // last: empty for a line alone, and for a heading
	within      []*block
}

// blocks reads rules: a heading is "# text" and reaches to the next, a part is "*table" to COMMIT or "name {" to "}".
func blocks(text string) []*block {
	all := &block{}
	open := []*block{all}
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		in := open[len(open)-1]
		switch begins := &(block{first: line}); {
		case trimmed == "COMMIT" || trimmed == "}":
			in.last = line
			open = open[:len(open)-1]
		case isHeading(line):
			all.within = append(all.within, begins)
			open = []*block{all, begins}
		case strings.HasPrefix(line, "*") || strings.HasSuffix(trimmed, "{"):
			in.within = append(in.within, begins)
			open = append(open, begins)
		default:
			in.within = append(in.within, begins)
		}
	}
	return all.within
}

// isHeading tells a heading from a line that is commented out, which is indented.
func isHeading(line string) bool {
	return strings.HasPrefix(line, "# ") && !strings.HasPrefix(line, "#  ")
}

// less returns the blocks that the others lack, in whole or in part.
func less(all, others []*block) (rest []*block) {
	known := map[string]*block{}
	for _, o := range others {
		known[o.is()] = o
	}
	for _, b := range all {
		o, ok := known[b.is()]
		if !ok {
			rest = append(rest, b)
			continue
		}
		if within := less(b.within, o.within); len(within) > 0 {
			rest = append(rest, &block{b.first, b.last, append(b.types(), within...)})
		}
	}
	return rest
}

// is tells blocks apart: the last element of a set has no comma.
func (b *block) is() string { return strings.TrimRight(b.first, ",\n") }

// types are the lines that say what a set or map holds, without which it cannot be loaded.
func (b *block) types() (lines []*block) {
	for _, l := range b.within {
		if key := strings.TrimSpace(l.first); strings.HasPrefix(key, "type ") || strings.HasPrefix(key, "typeof ") {
			lines = append(lines, l)
		}
	}
	return lines
}

func (b *block) write(out *strings.Builder) {
	out.WriteString(b.first)
	for _, in := range b.within {
		in.write(out)
	}
	out.WriteString(b.last)
}
