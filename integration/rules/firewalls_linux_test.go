package rules

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
)

// firewall is the rules of another program.
type firewall struct {
	file     string
	commands []string // that load it, as when it starts or is reloaded
	strict   bool     // without the rules that accept what was translated
	list     []string // prints it; empty: as iptables does
	where    string   // the doctor says so where a rule of it ends packets
	ends     []string // the modes in which that is so
}

func firewalls() map[string]firewall {
	iptables, nft := []string{"iptables-restore", "ip6tables-restore"}, []string{"nft"}
	list := []string{"nft", "list", "table", "inet", "firewalld"}
	byNFT := []string{"nftables", "userspace by nftables"}
	return map[string]firewall{
		"ufw":       {file: "ufw", commands: iptables, ends: byNFT, where: "iptables-nft table ip filter: chain "},
		"docker":    {file: "docker", commands: iptables[:1], ends: byNFT[:1], where: "chain FORWARD has the policy drop"},
		"firewalld": {file: "firewalld.nft", commands: nft, list: list},
		"strict firewalld": {file: "firewalld.nft", commands: nft, list: list, strict: true,
			ends: append([]string{"iptables", "userspace by iptables"}, byNFT...), where: "table inet firewalld, chain filter_"},
	}
}

// load flushes what the tables hold, as a start or reload of such programs does.
func (f firewall) load(b *bed.Bed) {
	b.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", f.file))
	b.Must(err)
	if f.strict {
		text = []byte(strings.ReplaceAll(string(text), "ct status dnat accept", ""))
	}
	path := filepath.Join(b.Dir, f.file)
	b.WriteFile(path, string(text))
	for _, command := range f.commands {
		args := []string{path}
		if command == "nft" {
			args = []string{"-f", path}
		}
		b.On(b.Node, command, args...)
	}
}

func (f firewall) rules(b *bed.Bed) string {
	if len(f.list) > 0 {
		return b.On(b.Node, f.list[0], f.list[1:]...)
	}
	return b.Rules()
}

// Beside firewalls that drop by default, a NodePort is reached, or the doctor names the chain that ends its packets. A
// reload that flushes our jumps is undone, and no rule of theirs is changed.
func TestOtherFirewalls(t *testing.T) {
	for name, f := range firewalls() {
		for _, m := range bed.Modes() {
			if strings.Contains(m.Name, "ipvs") {
				continue
			}
			t.Run(name+"/"+m.Name, func(t *testing.T) {
				b := bed.New(t, "iptables-restore", "nft")
				b.ServePods(0)
				f.load(b)
				before := f.rules(b)
				d := b.Start(b.Cart(0), append([]string{"--iptables-sync-period=1s"}, m.Args...)...)
				d.ExpectErrors = true
				reached := func() bool {
					a, err := bed.AskWithin(bed.SilenceTimeout, b.Client, "tcp",
						bed.HostPort(b.Node.IPv4.String(), bed.NodePort))
					return err == nil && a.Pod == "pod0"
				}
				if slices.Contains(f.ends, m.Name) {
					if reached() {
						t.Error("reached through rules that end its packets")
					}
					if seen := foreignRules(b, d); !strings.Contains(seen, f.where) {
						t.Errorf("the doctor says %q, want %q", seen, f.where)
					}
				} else {
					b.Eventually("the NodePort to be reached", reached)
					f.load(b)
					b.Eventually("it to be reached after a reload", reached)
				}
				d.Stop()
				b.On(b.Node, bed.Portald, "cleanup")
				if after := f.rules(b); after != before {
					t.Errorf("before:\n%s\nafter:\n%s", before, after)
				}
			})
		}
	}
}

// foreignRules returns the doctor's finding on rules of others.
func foreignRules(b *bed.Bed, d *bed.Daemon) (seen string) {
	text, _ := b.Try(b.Node, bed.Portald, "doctor", "-o", "json", "--socket", d.Socket) // it fails with findings
	var r struct {
		Findings []struct{ Check, Seen string }
	}
	b.Must(json.Unmarshal([]byte(text), &r))
	for _, x := range r.Findings {
		if x.Check == "foreign-rules" {
			seen += x.Seen + "\n"
		}
	}
	return seen
}
