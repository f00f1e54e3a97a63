package packetfilter

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/net/bpf"

	"github.com/portald/portald/platform/netnstest"
)

// ethernet is the size of a header of Ethernet.
const ethernet = 14

// packet makes a packet of Ethernet from few values, so that conditions meet about half of them.
func packet(r *rand.Rand) []byte {
	pick := func(from ...int) int { return from[r.IntN(len(from))] }
	p := make([]byte, ethernet, 128)
	protocol := byte(pick(1, 6, 6, 17, 58, 132))
	if r.IntN(3) == 0 {
		binary.BigEndian.PutUint16(p[12:], 0x86dd)
		header := make([]byte, 40)
		header[0], header[6] = 0x60, protocol
		for _, at := range []int{8, 24} {
			copy(header[at:], []byte{0xfd, 0, 0, byte(pick(1, 2))})
			header[at+15] = byte(pick(1, 2))
		}
		p = append(p, header...)
	} else {
		binary.BigEndian.PutUint16(p[12:], 0x0800)
		header := make([]byte, 20+4*pick(0, 0, 1, 10))
		header[0], header[9] = 0x40|byte(len(header)/4), protocol
		binary.BigEndian.PutUint16(header[6:], uint16(pick(0, 0, 0x4000, 0x2000, 0x2005)))
		for _, at := range []int{12, 16} {
			copy(header[at:], []byte{10, byte(pick(0, 1)), 0, byte(pick(1, 2))})
		}
		p = append(p, header...)
	}
	transport := make([]byte, pick(8, 20, 40))
	binary.BigEndian.PutUint16(transport, uint16(pick(80, 443, 8080)))
	binary.BigEndian.PutUint16(transport[2:], uint16(pick(80, 443, 8080)))
	if len(transport) > 13 {
		transport[13] = byte(pick(2, 4, 16, 18, 20))
	}
	return append(p, transport...)
}

// Programs keep the packets that those of tcpdump keep.
func TestLikeTcpdump(t *testing.T) {
	tcpdump, err := exec.LookPath("tcpdump")
	if err != nil {
		netnstest.Missing(t, "needs tcpdump")
	}
	for _, text := range []string{
		"tcp", "udp", "icmp", "icmp6", "sctp", "ip", "ip6", "tcp port 80", "port 80", "not port 80", "src port 80",
		"udp dst port 443", "ip6 and tcp port 80", "host 10.0.0.1", "src host 10.1.0.2", "dst 10.0.0.1",
		"net 10.1.0.0/16", "src net 10.0.0.0/16", "net 0.0.0.0/0", "host fd00:1::1", "src host fd00:0001::2",
		"net fd00:1::/32", "dst net fd00:2::/64", "portrange 80-443", "src portrange 444-9000", "tcp portrange 443-443",
		"port 80 or 443", "port 80 or port 443 and host 10.0.0.1", "port 80 and host 10.0.0.1 or port 443",
		"(port 80 or port 443) and host 10.0.0.1", "not (port 80 or host 10.0.0.1)", "not tcp and port 80",
		"! tcp && ( port 80 || port 443 )", "icmp and src host 10.0.0.1", "src and dst port 80", "src or dst port 443",
		"ip and tcp[tcpflags] & tcp-rst != 0", "ip and tcp[tcpflags] & (tcp-syn|tcp-ack) == tcp-syn",
		"ip and tcp[13] = 18", "ip and tcp[13] & 4 != 0", "less 60", "greater 75", "tcp and greater 90 or udp",
		"host 10.0.0.1 or host 10.1.0.2 and not port 8080", "src host 10.0.0.1 and dst port 80",
	} {
		t.Run(text, func(t *testing.T) {
			reference := reference(t, tcpdump, text)
			e, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := compileAt(ethernet, e, 262144)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, machine(t, raw), reference)
		})
	}
}

func machine(t *testing.T, raw []bpf.RawInstruction) *bpf.VM {
	t.Helper()
	code, ok := bpf.Disassemble(raw)
	vm, err := bpf.NewVM(code)
	if err != nil || !ok {
		t.Fatal(err, ok)
	}
	return vm
}

// reference is tcpdump's program of a filter.
func reference(t *testing.T, tcpdump, text string) *bpf.VM {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), tcpdump, "-ddd", "-y", "EN10MB", "-s", "262144", text).Output()
	if err != nil {
		t.Fatalf("tcpdump -ddd %q: %v", text, err)
	}
	var raw []bpf.RawInstruction
	for line := range strings.Lines(string(out)) {
		var i bpf.RawInstruction
		if n, _ := fmt.Sscan(line, &i.Op, &i.Jt, &i.Jf, &i.K); n == 4 {
			raw = append(raw, i)
		}
	}
	return machine(t, raw)
}

func compare(t *testing.T, ours, reference *bpf.VM) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	kept := 0
	for range 5000 {
		p := packet(r)
		got, err := ours.Run(p)
		want, errWant := reference.Run(p)
		if err != nil || errWant != nil {
			t.Fatal(err, errWant)
		}
		if (got > 0) != (want > 0) {
			t.Fatalf("%x: kept %v, tcpdump %v", p, got > 0, want > 0)
		}
		if got > 0 {
			kept++
		}
	}
	if kept == 0 {
		t.Error("the filter keeps none of the packets, so that nothing is compared")
	}
}

func TestParseRefuses(t *testing.T) {
	for text, why := range map[string]string{
		"":                         "empty",
		"bogus":                    `"bogus" where it must have host`,
		"10.0.0.1":                 `"10.0.0.1" where it must have host`,
		"port eighty":              `port "eighty": must be a number`,
		"port 80-90":               "must be a number",
		"portrange 90-80":          "must be a number",
		"host example.com":         "names are not looked up",
		"net 10.0.0.1/8":           "bits outside its mask: write 10.0.0.0/8",
		"net 10":                   "must be a prefix",
		"tcp host 10.0.0.1":        `write "tcp and host ..."`,
		"icmp port 80":             "only tcp, udp and sctp have ports",
		"tcp[0:2] = 80":            "tcpflags]",
		"tcp[tcpflags] & tcp-rst":  "=, == or !=",
		"tcp[tcpflags] & x != 0":   "a flag such as tcp-rst",
		"port 80 and":              "ends where it must have",
		"(port 80":                 "a closing parenthesis",
		"port 80)":                 "and, or, or the end",
		"vlan 7":                   `"vlan"`,
		"ether[0] & 1 = 0":         `"ether"`,
		"greater many":             "a number of bytes",
		strings.Repeat("(", 100):   "nested more than 64 times",
		strings.Repeat("a", 10000): "10000 characters",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%.40q: %v; want %q", text, err, why)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("tcp[tcpflags] & (tcp-rst|tcp-fin) != 0 or not (port 80 and src net 10.0.0.0/8)")
	f.Add("port 80 or 443 and less 60")
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Parse(text)
		if err != nil {
			return
		}
		raw, err := compileAt(0, e, 100)
		if err != nil {
			return
		}
		code, _ := bpf.Disassemble(raw)
		vm, err := bpf.NewVM(code)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if _, err := vm.Run(make([]byte, 60)); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	})
}

// A filter that is too long for the kernel is refused before the kernel sees it.
func TestTooLong(t *testing.T) {
	ports := make([]uint16, 3000)
	for i := range ports {
		ports[i] = uint16(i)
	}
	if _, err := Compile(Ports(Either, ports...), 100); err == nil || !strings.Contains(err.Error(), "4096 at most") {
		t.Error(err)
	}
}
