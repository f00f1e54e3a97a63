package netshtest

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

const (
	add    = "interface ipv4 add address name=7 address=10.96.0.10 mask=255.255.255.255 store=active skipassource=true"
	remove = "interface ipv4 delete address name=7 address=10.96.0.10 store=active"
)

func newNetsh() (*Netsh, *Memory) {
	m := &Memory{}
	m.Plug("vEthernet (HNS Internal NIC)", 7, "172.22.0.1/16")
	return &Netsh{Host: m}, m
}

func run(t *testing.T, n *Netsh, line string) Result {
	t.Helper()
	r, err := n.Run(t.Context(), words(line), "")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The message of each situation, in the bytes of the console.
func TestSaid(t *testing.T) {
	for _, c := range []struct {
		line, english, chinese string
		code                   int
	}{
		{add, "\r\n", "\r\n", 0},
		{add, "The object already exists.\r\n\r\n", "\xb6\xd4\xcf\xf3\xd2\xd1\xb4\xe6\xd4\xda\xa1\xa3\r\n\r\n", 1},
		{remove, "\r\n", "\r\n", 0},
		{remove, "Element not found.\r\n\r\n", "\xd5\xd2\xb2\xbb\xb5\xbd\xd4\xaa\xcb\xd8\xa1\xa3\r\n\r\n", 1},
		{"interface ipv4 add address name=nope address=10.0.0.1", "The filename, directory name, or volume", "", 1},
		{"interface ipv4 add address address=10.0.0.1", "One or more essential parameters", "", 1},
		{"interface ipv4 add address name=7 address=240.0.0.1", "The parameter is incorrect.", "", 1},
		{"interface ipv4 add address name=7 address=fd00::1", "The parameter is incorrect.", "", 1},
		{"interface ipv6 add address name=7 address=fd00::1/128", "The syntax supplied", "", 1},
		{"interface ipv4 add adress name=7", "The syntax supplied", "", 1},
		{`interface ipv6 add address "vethernet (hns internal NIC)" fd00::1/128`, "\r\n", "", 0},
	} {
		english, _ := newNetsh()
		chinese, _ := newNetsh()
		chinese.Language = Chinese
		if strings.Contains(c.english, "exists") || c.line == remove && c.code == 0 {
			run(t, english, add)
			run(t, chinese, add)
		}
		r, other := run(t, english, c.line), run(t, chinese, c.line)
		if r.Code != c.code || other.Code != c.code || !strings.HasPrefix(string(r.Output), c.english) ||
			!strings.HasPrefix(string(other.Output), c.chinese) {
			t.Errorf("%s\n%d %q\n%d %q", c.line, r.Code, r.Output, other.Code, other.Output)
		}
	}
	german, _ := newNetsh()
	german.Language, german.Faults.NotElevated = German, true
	if r := run(t, german, add); r.Code != 1 || !strings.Contains(string(r.Output), "erh\x94hte Rechte") {
		t.Errorf("%d %q", r.Code, r.Output)
	}
}

// The subnet follows from the mask, the length, or the address's class.
func TestSubnets(t *testing.T) {
	for line, want := range map[string]string{
		add: "10.96.0.10/32", "interface ipv4 add address 7 10.96.0.10": "10.96.0.10/8",
		"interface ipv4 add address 7 10.96.0.10/24":               "10.96.0.10/24",
		"interface ipv4 add address 7 192.0.2.1 255.255.255.240":   "192.0.2.1/28",
		"interface ipv6 add address interface=7 address=fd00::1":   "fd00::1/64",
		"interface ipv6 add address interface=7 address=fd00::1/9": "fd00::1/9",
	} {
		n, m := newNetsh()
		r := run(t, n, line)
		all, _ := m.Interfaces()
		if a := all[0].Addresses; len(a) != 2 || a[1].Prefix.String() != want {
			t.Errorf("%s: %q, %v, want %s", line, r.Output, a, want)
		}
	}
}

// The output of show has labels from column 5 and values from column 43, in every language.
func TestShow(t *testing.T) {
	for _, c := range []struct {
		language    Language
		line, wants string
	}{
		{English, "interface ipv4 show addresses 7", "\r\nConfiguration for interface \"vEthernet (HNS Internal NIC)\"\r\n" +
			"    DHCP enabled:                         No\r\n    IP Address:                           172.22.0.1\r\n" +
			"    Subnet Prefix:                        172.22.0.0/16 (mask 255.255.0.0)\r\n" +
			"    InterfaceMetric:                      15\r\n\r\n"},
		{German, "interface ipv4 show addresses name=7", "    Subnetzpr\x84fix:                        172.22.0.0/16 (Maske"},
		{Chinese, "interface ipv4 show addresses", "IP \xb5\xd8\xd6\xb7:"},
		{English, "interface ipv4 show interfaces", "\r\nIdx     Met         MTU          State                Name\r\n---"},
		{English, "interface ipv4 show excludedportrange protocol=tcp", "     50000       50059      \r\n"},
	} {
		n, m := newNetsh()
		n.Language = c.language
		m.Excluded = []PortRange{{"ipv4", "tcp", 50000, 50059}}
		if r := run(t, n, c.line); r.Code != 0 || !strings.Contains(string(r.Output), c.wants) {
			t.Errorf("%s: %d\n%q\nwithout\n%q", c.line, r.Code, r.Output, c.wants)
		}
	}
}

// A script goes on after a line that fails; comments and empty lines are none.
func TestScript(t *testing.T) {
	n, m := newNetsh()
	path := filepath.Join(t.TempDir(), "a script.txt")
	text := "# two addresses\r\n\r\n" + add + "\r\n" + add + "\r\ninterface ipv6 add address 7 fd00::1/128\r\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := n.Exec(t.Context(), "-f", path)
	all, _ := m.Interfaces()
	if err != nil || r.Code != 0 || len(all[0].Addresses) != 3 || !strings.Contains(string(r.Output), "already exists") {
		t.Errorf("%+v, %v, %v", r, err, all)
	}
	if _, err := n.Exec(t.Context(), "-f", path+".none"); err == nil {
		t.Error("no error for a script that is not there")
	}
}

// A process takes its time, and no longer than its context.
func TestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := newNetsh()
		n.PerCall, n.PerLine = 80*time.Millisecond, 2*time.Millisecond
		start := time.Now()
		run(t, n, add)
		if took := time.Since(start); took != 82*time.Millisecond {
			t.Errorf("a process takes %s", took)
		}
		n.Faults.Hang = true
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("too long"))
		defer cancel()
		if _, err := n.Run(ctx, words(add), ""); err == nil || err.Error() != "too long" {
			t.Errorf("error %v", err)
		}
	})
}

// Sockets of the host have the errors of Windows.
func TestSockets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, m := newNetsh()
		m.Detection = 3 * time.Second
		m.Taken = []netip.Addr{netip.MustParseAddr("10.96.0.11")}
		m.Excluded = []PortRange{{"ipv4", "tcp", 50000, 50059}}
		m.Add(7, netip.MustParsePrefix("10.96.0.10/32"))
		m.Add(7, netip.MustParsePrefix("10.96.0.11/32"))
		bind := func(want syscall.Errno, protocol, at string) Socket {
			t.Helper()
			s := Socket{protocol, netip.MustParseAddrPort(at)}
			if err := m.Bind(s); err != want && (err != nil || want != 0) {
				t.Errorf("%s: %v, want %v", at, err, want)
			}
			return s
		}
		bind(notAvailable, "tcp", "10.96.0.10:80")
		bind(0, "tcp", "172.22.0.1:80")
		time.Sleep(3 * time.Second)
		s := bind(0, "tcp", "10.96.0.10:80")
		bind(inUse, "tcp", "10.96.0.10:80")
		bind(0, "udp", "10.96.0.10:80")
		bind(notAvailable, "tcp", "10.96.0.11:80")
		bind(forbidden, "tcp", "10.96.0.10:50059")
		bind(0, "udp", "10.96.0.10:50059")
		if !m.Reach(s) {
			t.Error("a bound socket is not reached")
		}
		m.Remove(7, netip.MustParseAddr("10.96.0.10"))
		m.Add(7, netip.MustParsePrefix("10.96.0.10/32"))
		if m.Reach(s) {
			t.Error("a socket is reached whose address was removed")
		}
	})
}

// A process elsewhere is answered, and one that is killed stops half-way.
func TestServe(t *testing.T) {
	n, m := newNetsh()
	n.Language, n.PerLine = Chinese, 50*time.Millisecond
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go n.Serve(l)
	client := Client{l.Addr().String()}
	client.exec(t, add, 0, "\r\n")
	client.exec(t, add, 1, "\xb6\xd4\xcf\xf3")

	path := filepath.Join(t.TempDir(), "script.txt")
	text := strings.Repeat(remove+"\r\n", 20) + "interface ipv6 add address 7 fd00::1/128\r\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := client.Exec(ctx, "-f", path); err == nil {
		t.Error("a killed process has an answer")
	}
	time.Sleep(2 * time.Second) // more than the script takes
	if all, _ := m.Interfaces(); len(all[0].Addresses) != 1 {
		t.Errorf("addresses after a process was killed in a script: %v", all[0].Addresses)
	}
}

func (c Client) exec(t *testing.T, line string, code int, output string) {
	t.Helper()
	r, err := c.Exec(t.Context(), words(line)...)
	if err != nil || r.Code != code || !strings.HasPrefix(string(r.Output), output) {
		t.Errorf("%s: %d %q, %v", line, r.Code, r.Output, err)
	}
}
