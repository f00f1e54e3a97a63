package migrate

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/portald/portald/integration/bed"
)

// state is all of a node that a service proxy may change, as lines in an order that does not depend on who wrote it.
func state(b *bed.Bed) (lines []string) {
	b.Helper()
	for _, variant := range []string{"nft", "legacy"} {
		lines = append(lines, "# iptables-"+variant)
		lines = append(lines, chainsInOrder(b.Rules(variant))...)
	}
	if !bed.InVM {
		lines = append(append(lines, "# nftables"), nftables(b)...)
	}
	for _, command := range []string{"ip rule", "ip -6 rule", "ip route show table all", "ip -6 route show table all",
		"ip -o addr", "ipset save -sorted", "ipvsadm -Sn"} {
		words := strings.Fields(command)
		out, err := b.Try(b.Node, words[0], words[1:]...)
		if err != nil && (words[0] == "ip" || bed.InVM) {
			b.Fatal(err)
		}
		lines = append(append(lines, "# "+command), sorted(volatile.ReplaceAllString(out, ""))...)
	}
	return append(append(lines, "# sysctls"), sysctls(b)...)
}

// volatile matches lines that differ from host to host: routes that the kernel makes of addresses, numbers and life
// times of links and addresses, and the other ends of links.
var volatile = regexp.MustCompile(`(?m)^.* table local .*\n|^\d+: |@\S+|\\ .*|metric \d+| initval \S+|fe80::\S+:\S+`)

func sorted(text string) []string {
	return slices.Sorted(strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' }))
}

// chainsInOrder sorts chains, and the rules of those of kube-proxy, where the order of Services is that of a Go map. In
// all others the order of rules stays.
func chainsInOrder(text string) (lines []string) {
	for table := range strings.SplitSeq(text, "COMMIT\n") {
		rules := slices.Collect(strings.Lines(table))
		slices.SortStableFunc(rules, func(a, b string) int {
			c := strings.Compare(chainOf(a), chainOf(b))
			if c == 0 && strings.HasPrefix(chainOf(a), "KUBE-") {
				c = strings.Compare(a, b)
			}
			return c
		})
		for _, r := range rules {
			lines = append(lines, strings.TrimSpace(r))
		}
	}
	return lines
}

// chainOf is the chain that a line of iptables-save is about.
func chainOf(line string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(line, ":"), "-A "), " ")
	return name
}

// nftables are the rules of nftables but for those of iptables, each a line.
func nftables(b *bed.Bed) (lines []string) {
	b.Helper()
	var all struct {
		Nftables []map[string]map[string]any `json:"nftables"`
	}
	b.Must(json.Unmarshal([]byte(b.On(b.Node, "nft", "-j", "list", "ruleset")), &all))
	ofIPTables := map[string]bool{"filter": true, "nat": true, "mangle": true, "raw": true, "security": true}
	for _, object := range all.Nftables {
		for kind, o := range object {
			table, _ := o["table"].(string)
			if kind == "metainfo" || ofIPTables[table] || kind == "table" && ofIPTables[o["name"].(string)] {
				continue
			}
			plain(o)
			text, err := json.Marshal(object)
			b.Must(err)
			lines = append(lines, string(text))
		}
	}
	// Rules stay in the order that they have within their chain.
	slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(placeOf(a), placeOf(b)) })
	return lines
}

var ruleAt = regexp.MustCompile(`^\{"rule":\{"chain":"([^"]*)".*"family":"([^"]*)","table":"([^"]*)"`)

// placeOf is where a line stands: a rule at its chain, all else at itself.
func placeOf(line string) string {
	if at := ruleAt.FindStringSubmatch(line); at != nil {
		return `{"rule" ` + strings.Join(at[1:], " ")
	}
	return line
}

// plain removes handles and counters from an object, and sorts elements.
func plain(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "handle")
		delete(v, "packets")
		delete(v, "bytes")
		for key, of := range v {
			plain(of)
			if all, ok := of.([]any); ok && (key == "elem" || key == "set") {
				slices.SortFunc(all, func(a, b any) int {
					x, _ := json.Marshal(a) // it was JSON
					y, _ := json.Marshal(b)
					return strings.Compare(string(x), string(y))
				})
			}
		}
	case []any:
		for _, of := range v {
			plain(of)
		}
	}
}

// moving are sysctls that report events, sysctls of a host's own, and the one that portald leaves on kernels before 6.7
// (docs/limits.md).
var moving = regexp.MustCompile(`tcp_early_demux|conntrack_count|/neigh/|stable_secret|use_tempaddr|/dev_|fib_notify` +
	`|tcp_fastopen_key|ping_group|conf/control/|conf/lo/|events_retry|ip_set|/flush$`)

// sysctls are the settings of the network, each a line.
func sysctls(b *bed.Bed) (lines []string) {
	b.Helper()
	b.Must(b.Node.Do(func() error {
		const root = "/proc/sys/net"
		return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || moving.MatchString(path) {
				return err
			}
			if value, err := os.ReadFile(path); err == nil { // some can only be written
				lines = append(lines, strings.TrimPrefix(path, root+"/")+" = "+strings.TrimSpace(string(value)))
			}
			return nil
		})
	}))
	return lines
}

// same compares the states of nodes.
func same(b *bed.Bed, what string, want, got []string) {
	b.Helper()
	if diff := cmp.Diff(strings.Join(want, "\n"), strings.Join(got, "\n")); diff != "" {
		b.Errorf("%s differs (-a node without portald +this node):\n%s", what, diff)
	}
}
