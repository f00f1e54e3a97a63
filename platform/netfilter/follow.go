package netfilter

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// patience is how long the whole of iptables-nft may take to print, before it is asked chain by chain: with 10,000
// Services in its tables it takes ten seconds, one chain some milliseconds.
const patience = 500 * time.Millisecond

// print returns what iptables-save prints. If iptables-nft takes long, and the reader knows the chains that are many,
// it is what packets may pass before they come to those.
func (r Reader) print(ctx context.Context, command string, program Program) ([]byte, error) {
	if r.SkipChain == nil || program != IPTablesNFT {
		return r.Run(ctx, command, nil, nil)
	}
	short, end := context.WithTimeout(ctx, patience)
	defer end()
	text, err := r.Run(short, command, nil, nil)
	if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		return text, err
	}
	return r.follow(ctx, strings.TrimSuffix(command, "-save"))
}

// follow asks for the chains that packets enter by, and those that they are led to but the skipped ones, and returns
// them as iptables-save would print them.
func (r Reader) follow(ctx context.Context, command string) ([]byte, error) {
	var out strings.Builder
	for _, table := range []string{"raw", "mangle", "nat", "filter", "security"} {
		out.WriteString("*" + table + "\n")
		next := builtInChains(table)
		for known := slices.Clone(next); len(next) > 0; next = next[1:] {
			text, err := r.Run(ctx, command, []string{"-w", "1", "-t", table, "-S", next[0]}, nil)
			if ctx.Err() != nil {
				return nil, err
			}
			for line := range strings.Lines(string(text)) { // nothing, if there is no such table, or it is no chain
				out.WriteString(declaration(line))
				if to := target(line); to != "" && !slices.Contains(known, to) {
					known = append(known, to)
					if r.SkipChain(to) {
						out.WriteString(":" + to + " - [0:0]\n")
					} else if !isTarget(to) {
						next = append(next, to)
					}
				}
			}
		}
	}
	return []byte(out.String()), nil
}

// declaration makes of "-P CHAIN POLICY" and "-N CHAIN" the lines of iptables-save. Rules stay as they are.
func declaration(line string) string {
	words := strings.Fields(line)
	switch {
	case len(words) == 3 && words[0] == "-P":
		return ":" + words[1] + " " + words[2] + " [0:0]\n"
	case len(words) == 2 && words[0] == "-N":
		return ":" + words[1] + " - [0:0]\n"
	}
	return line
}

// target returns where a rule leads; empty if nowhere.
func target(line string) string {
	words := split(strings.TrimSpace(line))
	for i, w := range words[:max(0, len(words)-1)] {
		if (w == "-j" || w == "-g") && i > 0 && words[i-1] != "--comment" {
			return words[i+1]
		}
	}
	return ""
}

// isTarget tells whether a name is one of the usual targets, and no chain.
func isTarget(name string) bool {
	return slices.Contains([]string{"ACCEPT", "DROP", "RETURN", "REJECT", "DNAT", "SNAT", "MASQUERADE", "REDIRECT",
		"NETMAP", "MARK", "CONNMARK", "LOG", "NFLOG", "CT", "NOTRACK", "TPROXY", "NFQUEUE", "TCPMSS", "SET"}, name)
}

// builtInChains are the built-in chains of a table of iptables.
func builtInChains(table string) []string {
	switch table {
	case "raw":
		return []string{"PREROUTING", "OUTPUT"}
	case "mangle":
		return []string{"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"}
	case "nat":
		return []string{"PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"}
	}
	return []string{"INPUT", "FORWARD", "OUTPUT"}
}
