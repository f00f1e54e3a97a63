package config

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// Each mode as it is found on a node, by flags and by file, and what it makes of Services, writer and NodePorts.
func TestModes(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	userspace, kernel := service.ModeUserspace, service.ModeKernel
	for _, c := range []struct {
		mode, writer           string // as they are said
		wantServices           service.Mode
		wantMode, wantedWriter string
		nodePorts              NodePortAddresses
	}{
		{"", "", userspace, "userspace", "iptables", NodePortAddresses{All: true}},
		{"userspace", "", userspace, "userspace", "iptables", NodePortAddresses{All: true}},
		{"userspace", "nftables", userspace, "userspace", "nftables", NodePortAddresses{All: true}},
		{"", "ipvs", userspace, "userspace", "ipvs", NodePortAddresses{All: true}},
		{"iptables", "", kernel, "iptables", "iptables", NodePortAddresses{All: true}},
		{"iptables", "iptables", kernel, "iptables", "iptables", NodePortAddresses{All: true}},
		{"nftables", "", kernel, "nftables", "nftables", NodePortAddresses{Primary: true}},
		{"ipvs", "", kernel, "ipvs", "ipvs", NodePortAddresses{All: true}},
		{"ipvs", "ipvs", kernel, "ipvs", "ipvs", NodePortAddresses{All: true}},
	} {
		flags := []string{"--proxy-mode=" + c.mode}
		file := kubeHead + "mode: '" + c.mode + "'\n"
		if c.writer != "" {
			flags = append(flags, "--writer="+c.writer)
			file += "---\n" + portaldHead + "writer: " + c.writer + "\n"
		}
		for _, args := range [][]string{flags, {"--config=" + inFile(t, file)}} {
			got, warnings, err := complete(t, args...)
			check(t, err)
			if got.Mode != c.wantServices || got.ProxyMode != c.wantMode || got.Writer != c.wantedWriter ||
				diff(got.NodePorts, c.nodePorts) != "" {
				t.Errorf("%q: %v %v %v %+v, want %+v", args, got.Mode, got.ProxyMode, got.Writer, got.NodePorts, c)
			}
			if len(warnings) > 0 {
				t.Errorf("%q: %q", args, warnings)
			}
		}
	}
}

// A pair that nothing can do is refused in one line, which names both and says what would work.
func TestImpossiblePairs(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	modes := []string{modeIPTables, modeNFTables, modeIPVS}
	for _, mode := range modes {
		for _, writer := range modes {
			_, _, err := complete(t, "--proxy-mode="+mode, "--writer="+writer)
			want := fmt.Sprintf("--writer %s: contradicts --proxy-mode, which is %s; omit the writer, or write "+
				"mode %[1]s for that in the kernel, or mode userspace, which works with any", writer, mode)
			if (mode == writer) != (err == nil) || err != nil && err.Error() != want {
				t.Errorf("%s with %s: %v", mode, writer, err)
			}
		}
	}
}

func TestUnknownModes(t *testing.T) {
	for mode, want := range map[string]string{
		"": "", "userspace": "", "iptables": "", "nftables": "", "ipvs": "", "magic": "must be userspace, iptables, " +
			"nftables or ipvs, or be omitted", "IPVS": "must be userspace, iptables, nftables or ipvs, or be omitted",
		"kernelspace": "is served by Windows' HNS, which portald does not program; write userspace, or on Linux " +
			"iptables, nftables or ipvs",
	} {
		if got := knownMode(mode); got != want {
			t.Errorf("%s: %q, want %q", mode, got, want)
		}
	}
}

// Masquerading is configured in the group of the writer, and IPVS uses the group iptables.
func TestMasquerade(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	const both = "iptables: {masqueradeBit: 0, masqueradeAll: true}\nnftables: {masqueradeBit: 31}\n"
	for _, c := range []struct {
		mode, writer string
		want         portal.Masquerade
		idle         string
	}{
		{"", "", portal.Masquerade{Mark: 1, All: true}, "nftables.masqueradeBit;"},
		{"iptables", "", portal.Masquerade{Mark: 1, All: true}, "nftables.masqueradeBit;"},
		{"ipvs", "", portal.Masquerade{Mark: 1, All: true}, "nftables.masqueradeBit;"},
		{"nftables", "", portal.Masquerade{Mark: 1 << 31}, "iptables.masqueradeBit, iptables.masqueradeAll;"},
		{"userspace", "nftables", portal.Masquerade{Mark: 1 << 31}, "iptables.masqueradeBit, iptables.masqueradeAll;"},
	} {
		args := []string{"--config=" + inFile(t, kubeHead+"mode: '"+c.mode+"'\n"+both)}
		if c.writer != "" {
			args = append(args, "--writer="+c.writer)
		}
		got, warnings, err := complete(t, args...)
		check(t, err)
		if got.Masquerade != c.want || len(warnings) != 1 || !strings.Contains(warnings[0], "no effect: "+c.idle) {
			t.Errorf("%+v: %+v, %q", c, got.Masquerade, warnings)
		}
	}
}

// The bit for replies to transparent clients cannot be that for what is masqueraded, in the group that counts.
func TestMasqueradeBitIsNotThatOfReplies(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	_, _, err := complete(t, "--proxy-mode=iptables", "--iptables-masquerade-bit=12")
	const want = "--iptables-masquerade-bit 12: is the bit that portald marks replies to clients' own addresses with " +
		"(clientAddress transparent); choose another, such as 14"
	if err == nil || err.Error() != want {
		t.Error(err)
	}
	_, _, err = complete(t, "--proxy-mode=iptables", "--iptables-masquerade-bit=4")
	if err == nil || !strings.Contains(err.Error(),
		"is the bit that portald marks what it sends to endpoints with; choose another") {
		t.Error(err)
	}
	if _, _, err := complete(t, "--proxy-mode=nftables", "--iptables-masquerade-bit=12"); err != nil {
		t.Errorf("in a group without effect: %v", err)
	}
}

func TestIPVS(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	want := IPVS{
		Scheduler: "mh", ExcludeCIDRs: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"),
			netip.MustParsePrefix("2001:db8::/64")},
		StrictARP: true, TCPTimeout: time.Minute, TCPFinTimeout: time.Second, UDPTimeout: 2 * time.Second,
		Fallback: "iptables",
	}
	file := inFile(t, kubeHead+"mode: ipvs\nipvs: {scheduler: mh, excludeCIDRs: [192.0.2.0/24, '2001:db8::/64'], "+
		"strictARP: true, "+
		"tcpTimeout: 1m, tcpFinTimeout: 1s, udpTimeout: 2s}\n---\n"+portaldHead+"ipvs: {fallback: iptables}\n")
	for _, args := range [][]string{{"--config=" + file}, {"--proxy-mode=ipvs", "--ipvs-scheduler=mh", "--ipvs-strict-arp",
		"--ipvs-exclude-cidrs=192.0.2.0/24,2001:db8::/64", "--ipvs-tcp-timeout=1m", "--ipvs-tcpfin-timeout=1s",
		"--ipvs-udp-timeout=2s", "--ipvs-fallback=iptables"}} {
		got, warnings, err := complete(t, args...)
		check(t, err)
		if d := diff(want, got.IPVS); d != "" || len(warnings) > 0 {
			t.Errorf("%q (-want +got)\n%s\n%q", args, d, warnings)
		}
	}
	for _, c := range []struct{ args, want []string }{
		{
			[]string{"--proxy-mode=ipvs", "--ipvs-scheduler=fifo", "--ipvs-fallback=nftables", "--ipvs-exclude-cidrs=all",
				"--ipvs-udp-timeout=-1s"},
			[]string{"--ipvs-scheduler fifo: must be rr, wrr, lc, wlc, lblc, lblcr, sh, dh, sed, nq or mh\n",
				"--ipvs-fallback nftables: must be iptables, or be omitted\n",
				"--ipvs-exclude-cidrs all: must be a CIDR", "--ipvs-udp-timeout -1s: must not be negative"},
		},
		{
			[]string{"--service-cidrs=10.96.0.1", "--writer=netsh", "--proxy-mode=kernelspace"},
			[]string{"--service-cidrs 10.96.0.1: must be a CIDR", "--writer netsh: is for Windows; write",
				"--proxy-mode kernelspace: is served by Windows' HNS"},
		},
	} {
		_, _, err := complete(t, c.args...)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error()+"\n", want) {
				t.Errorf("nothing like %q in\n%v", want, err)
			}
		}
		if err != nil && strings.Count(err.Error(), "\n") != len(c.want)-1 {
			t.Errorf("%q: not %d mistakes:\n%v", c.args, len(c.want), err)
		}
	}
}

// Settings that the writer has no use for are named, in portald's document too.
func TestSettingsOfOtherWriters(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	path := inFile(t, portaldHead+"writer: nftables\niptablesVariant: nft\nipvs: {fallback: "+
		"iptables}\nserviceCIDRs: [10.96.0.0/12]\n")
	_, warnings, err := complete(t, "--config", path)
	check(t, err)
	want := path + ": document 1 (PortaldConfiguration): no effect: ipvs.fallback, iptablesVariant; see portald " +
		"config check " + path
	if len(warnings) != 1 || warnings[0] != want {
		t.Errorf("%q, want %q", warnings, want)
	}
	_, warnings, err = complete(t, "--config", path, "--iptables-variant=legacy", "--ipvs-fallback=")
	check(t, err)
	if len(warnings) != 2 || warnings[0] != "--ipvs-fallback has no effect: for the writer ipvs only; the writer "+
		"is nftables" ||
		warnings[1] != "--iptables-variant has no effect: the writer nftables does not use iptables" {
		t.Errorf("%q", warnings)
	}
}
