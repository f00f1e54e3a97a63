package doctor

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/portald/portald/platform/inet"
)

func TestParse(t *testing.T) {
	check := func(what string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", what, got, want)
		}
	}
	stats, err := parseConntrackStats("entries  insert_failed drop early_drop search_restart\n" +
		"0000000a  0000000b 00000001 00000000 00000000\n0000000a  00000001 00000000 00000010 00000000\n")
	check("conntrack stats", stats, ConntrackStats{InsertFailed: 12, Drop: 1, EarlyDrop: 16})
	check("conntrack stats", err, nil)
	if _, err := parseConntrackStats("drop\nzz\n"); err == nil {
		t.Error("a counter zz is no error")
	}

	check("locks", parseLocks("1: FLOCK  ADVISORY  WRITE 4242 00:1a:567 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 4243 "+
		"00:1a:567 0 EOF\n"+
		"2: POSIX  ADVISORY  WRITE 5 00:1a:567 0 EOF\nnonsense\n"),
		[]fileLock{{4242, 567, "00:1a", false}, {4243, 567, "00:1a", true}})

	limit, err := parseOpenFiles("Limit  Soft Limit  Hard Limit  Units\nMax processes  1 2 processes\n" +
		"Max open files            1024                 1048576              files     \n")
	check("limit", limit, 1024)
	check("limit", err, nil)

	check("servers", parseServers("IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n"+
		"  -> RemoteAddress:Port Forward Weight ActiveConn InActConn\nTCP  0A600001:01BB rr \n  -> 0AF40002:1F90 Masq 1 0 "+
		"0\n"+
		"UDP  [fd00:0010:0096:0000:0000:0000:0000:000a]:0035 rr \nFWM  00000007 rr\n"),
		[]string{"TCP 10.96.0.1:443", "UDP [fd00:0010:0096:0000:0000:0000:0000:000a]:53", "mark 00000007"})

	check("sockstat", parseSockstat("sockets: used 9\nTCP: inuse 5 orphan 0 tw 7 alloc 6 mem 1\nUDP: inuse 3 mem 2\n"+
		"TCP6: inuse 2\nUDP6: inuse 4\nUDPLITE: inuse 100\n"), Sockets{TCP: 7, TimeWait: 7, UDP: 7})

	v2, v1 := parseCgroups("9:name=systemd:/a\n4:cpu,memory:/pods/x\n0::/b\n")
	check("cgroups", []string{v2, v1}, []string{"/b", "/pods/x"})
	check("field", field("low 0\noom_kill 3\n", "oom_kill"), int64(3))

	check("excluded ports", parseExcluded("\r\nProtokoll tcp Portausschlussbereiche\r\n\r\nStartport    Endport\r\n"+
		"----------    --------\r\n     50000       50059      *\r\n      5357        5357      \r\n", "tcp"),
		[]ExcludedPorts{{"tcp", inet.PortRange{First: 50000, Last: 50059}}, {"tcp", inet.PortRange{First: 5357, Last: 5357}}})
	const german = "\r\nDynamischer Portbereich f\x81r Protokoll tcp\r\n---------------------------------\r\n" +
		"Startport      : 1025\r\nAnzahl von Ports : 64511\r\n\r\n"
	check("dynamic ports", parseDynamic(german, "tcp"), []DynamicPorts{{"tcp", inet.PortRange{First: 1025, Last: 65535}}})
	check("no dynamic ports", parseDynamic("Element nicht gefunden.\r\n", "tcp"), []DynamicPorts(nil))
}

func TestParseSockets(t *testing.T) {
	const header = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	line := func(at, state, inode string) string {
		return "   0: " + at + " 00000000:0000 " + state + " 00000000:00000000 00:00000000 00000000     0        0 " +
			"" + inode + " 1\n"
	}
	var got []Listener
	add := func(state string) func(text string) error {
		return func(text string) error {
			return parseSockets(strings.NewReader(header+text), state, func(l Listener) { got = append(got, l) })
		}
	}
	if err := add(tcpListen)(line("0100007F:7580", "0A", "77") +
		line("00000000000000000000000000000000:0050", "0A", "78") +
		line("0100007F:1F90", "01", "79") + "what comes behind listeners is not read"); err != nil {
		t.Error(err)
	}
	if err := add(udpBound)(line("00000000:0035", "01", "80") + line("00000000:0036", "07", "81")); err != nil {
		t.Error(err)
	}
	want := []Listener{{Address: addrPort("127.0.0.1:30080"), Inode: 77}, {Address: addrPort("[::]:80"), Inode: 78},
		{Address: addrPort("0.0.0.0:54"), Inode: 81}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, bad := range []string{"short\n", line("0100007F", "0A", "1"), line("XY00007F:0001", "0A", "1"),
		line("0100007F:0001", "0A", "x")} {
		if add(tcpListen)(bad) == nil {
			t.Errorf("%q is no error", bad)
		}
	}
}

// FuzzParse: whatever files of /proc and commands of Windows say, it is read without trust in its shape.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"entries drop early_drop\n0a 1 2\nff 3\n",
		"1: FLOCK ADVISORY WRITE 12 00:1b:77 0 EOF\n1: -> FLOCK ADVISORY WRITE 13 0:1:7 0 E",
		"x\n0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 0 0 777 1\n", "Max open files 1024 4096 files\n",
		"TCP  0A600001:01BB rr\nFWM  00000001 rr\nUDP  [fd00::1]:01BB rr\n",
		"TCP: inuse 5 tw 7\nUDP6: inuse 3\n",
		"Start : 9223372036854775807\nNumber : 1\n", "0::/kubepods\n5:cpu,memory:/x\n", "oom_kill 3\n",
		"Start Port : 49152\r\nNumber of Ports : 16384\r\n",
		"Start Port    End Port\n----------    --------\n 80 90 *\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = parseConntrackStats(text)
		for _, l := range parseLocks(text) {
			if !strings.Contains(text, l.device) {
				t.Errorf("%q has a lock of device %q", text, l.device)
			}
		}
		for _, state := range []string{tcpListen, udpBound} {
			_ = parseSockets(strings.NewReader(text), state, func(l Listener) {
				if !l.Address.IsValid() {
					t.Errorf("%q: a socket at %s", text, l.Address)
				}
			})
		}
		_, _ = parseOpenFiles(text)
		_ = parseServers(text)
		_ = parseSockstat(text)
		_, _ = parseCgroups(text)
		_ = field(text, "oom_kill")
		for _, d := range parseDynamic(text, "tcp") {
			if d.First < 1 || d.First > d.Last {
				t.Errorf("%q: dynamic ports %d to %d", text, d.First, d.Last)
			}
		}
		for _, e := range parseExcluded(text, "tcp") {
			if e.First > e.Last {
				t.Errorf("%q: excluded ports %d to %d", text, e.First, e.Last)
			}
		}
	})
}
