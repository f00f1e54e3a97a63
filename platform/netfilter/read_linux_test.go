package netfilter

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netnstest"
)

// The rules of a real host are found, with the text that its programs print.
func TestRead(t *testing.T) {
	netnstest.Enter(t)
	run(t, "iptables-nft", "-t", "raw", "-A", "PREROUTING", "-d", "10.96.0.1/32", "-p", "tcp", "-j", "DROP")
	run(t, "iptables-legacy", "-t", "mangle", "-A", "PREROUTING", "-p", "udp", "-j", "DROP")
	run(t, "nft", "-f", "testdata/fw.nft")
	run(t, "nft", "add table ip mine; add chain ip mine there")
	skipped := func(family, table string) bool { return family == "ip" && table == "mine" }
	r := Reader{SkipTable: skipped}.Read(t.Context())
	if len(r.Unread) != 0 {
		t.Errorf("unread: %v", r.Unread)
	}
	for want, p := range map[string]Packet{
		"iptables-nft table ip raw, chain PREROUTING: -A PREROUTING -d 10.96.0.1/32 -p tcp -j DROP": to(Prerouting,
			inet.TCP, "10.96.0.1:7"),
		"iptables-legacy table ip mangle, chain PREROUTING: -A PREROUTING -p udp -j DROP": to(Prerouting, inet.UDP,
			"10.96.0.1:53"),
		"nftables table inet fw, chain pre: ip daddr @bad drop": to(Prerouting, inet.TCP, "1.2.3.4:7"),
	} {
		hits := r.Meets(p, ownChains)
		if !slices.ContainsFunc(hits, func(h Hit) bool { return h.String() == want && h.Certain }) {
			t.Errorf("%s: meets %v, want %s", p.Destination, hits, want)
		}
	}
	var names []string
	for _, table := range r.Tables {
		names = append(names, table.String())
		if (len(table.Chains) == 0) != skipped(table.Family, table.Name) {
			t.Errorf("%s: chains %v", table, table.Chains)
		}
	}
	if n := strings.Count(strings.Join(names, "\n"), "table ip raw"); n != 1 {
		t.Errorf("table raw is there %d times: %v", n, names)
	}
}

// A command that hangs, and one that is not there, are said; the rest is read.
func TestReadWhatCannotBeRead(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	tables := func() ([]*Table, error) {
		return []*Table{{Program: NFTables, Family: "ip", Name: "raw"}, {Program: NFTables, Family: "inet", Name: "fw"}}, nil
	}
	r := Reader{Tables: tables, Run: func(ctx context.Context, name string, args []string, _ []byte) ([]byte, error) {
		switch name {
		case "iptables-nft-save":
			return []byte("*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -j DROP\nCOMMIT\n"), nil
		case "nft":
			<-ctx.Done()
			return nil, &platform.CommandError{Name: name, Args: args, Err: ctx.Err()}
		}
		return nil, &platform.CommandError{Name: name, Err: exec.ErrNotFound}
	}}.Read(ctx)
	if len(r.Meets(to(Prerouting, inet.TCP, "10.96.0.1:7"), ownChains)) != 1 {
		t.Error("what could be read was not")
	}
	said := strings.Join(r.Unread, "\n")
	for _, want := range []string{"ip6tables-save is not installed", context.DeadlineExceeded.Error()} {
		if !strings.Contains(said, want) {
			t.Errorf("unread %q, want %q", said, want)
		}
	}
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Error("it did not wait for nft")
	}
}

// An nft that is older than the program that wrote a table may crash on it, or print what is not JSON. The rules of all
// other tables are seen.
func TestReadWhereNFTFails(t *testing.T) {
	netnstest.Enter(t)
	for _, table := range []string{"crash", "fail", "strange", "mute"} {
		run(t, "nft", "add table inet "+table+"; add chain inet "+table+
			" pre { type filter hook prerouting priority raw; }; add rule inet "+table+" pre tcp dport 7 drop")
	}
	run(t, "nft", "-f", "testdata/fw.nft")
	olderNFT(t, `case "$*" in
*" crash") kill -SEGV $$ ;;
*" fail") echo "netlink: Error: Unknown set type" >&2; exit 1 ;;
"--json "*" strange") echo '{"nftables": [{"chain": {"prio": "no number"}}'; exit 0 ;;
"--handle "*" mute") kill -ABRT $$ ;;
esac`)
	r := Reader{}.Read(t.Context())
	said := strings.Join(r.Unread, "\n")
	for _, want := range []string{
		"rules of nftables table inet crash are not seen, though the kernel applies them: run nft --json --handle list " +
			"table inet crash: signal: segmentation fault",
		"rules of nftables table inet fail are not seen, though the kernel applies them: run nft --json --handle list " +
			"table inet fail: exit status 1: netlink: Error: Unknown set type; if nft is older",
		"rules of nftables table inet strange are not seen, though the kernel applies them: nft prints JSON that cannot",
		"texts of rules of nftables table inet mute are not seen, though the kernel applies them: run nft --handle",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("unread\n%s\nwant %s", said, want)
		}
	}
	if len(r.Unread) != 4 {
		t.Errorf("unread: %q", r.Unread)
	}
	for destination, want := range map[string]string{
		"1.2.3.4:8": "nftables table inet fw, chain pre: ip daddr @bad drop",
		"1.2.3.4:7": "nftables table inet mute, chain pre: handle 2",
	} {
		hits := r.Meets(to(Prerouting, inet.TCP, destination), ownChains)
		if !slices.ContainsFunc(hits, func(h Hit) bool { return h.String() == want && h.Certain }) {
			t.Errorf("%s meets %v, want %s", destination, hits, want)
		}
	}
}

// olderNFT puts an nft into the path that does something of its own, and is the host's in all that this leaves to it.
func olderNFT(t *testing.T, script string) {
	t.Helper()
	real, err := exec.LookPath("nft")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text := "#!/bin/sh\n" + script + "\nexec " + real + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "nft"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if _, err := platform.Run(t.Context(), name, args, nil); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			netnstest.Missing(t, "needs the packages iptables and nftables: %v", err)
		}
		t.Fatal(err)
	}
}

func TestMain(m *testing.M) { netnstest.Main(m) }
