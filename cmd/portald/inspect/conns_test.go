package inspect

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/portald/portald/proxy/adminsocket"
)

// conns are connections of every kind.
func conns() []adminsocket.Connection {
	return []adminsocket.Connection{
		{
			ID: 7, CarriedBy: "userspace", Service: "shop/cart:http", Protocol: "tcp", State: "open",
			Client: addr("10.0.0.9:41234"), ClientPod: "shop/web-1", OriginalDst: addr("10.96.0.10:80"), Portal: "ClusterIP",
			Proxy: addr("10.0.0.1:35012"), Endpoint: addr("10.1.0.3:8080"), Pod: "shop/cart-a", Node: "n1",
			EndpointState: "removed", FirstByteMS: ptr(1.5),
			Start: ago(303 * time.Second), LastMoved: ago(2 * time.Second), Attempts: 2,
			BytesFromClient: 1234, BytesToEndpoint: 1234, BytesFromEndpoint: 45_000_000, BytesToClient: 45_000_000,
			ClientTCP:   &adminsocket.TCP{RTTms: 0.42, Retransmits: 1},
			EndpointTCP: &adminsocket.TCP{RTTms: 12.3, Retransmits: 20},
		},
		{
			ID: 19, CarriedBy: "userspace", Service: "shop/cart:http", Protocol: "tcp", State: "dialing",
			Client: addr("[fd00::9]:41234"), OriginalDst: addr("[fd00:96::10]:80"), Portal: "ClusterIP",
			Start: ago(time.Second), LastMoved: ago(time.Second), Attempts: 1,
		},
		{
			CarriedBy: "kernel", Service: "kube-system/kube-dns:dns", Protocol: "udp", State: "assured",
			Client: addr("10.0.0.9:5353"), OriginalDst: addr("10.96.0.2:53"), Portal: "ClusterIP",
			Endpoint: addr("10.1.0.4:53"), Pod: "kube-system/dns-\x1b[31m\u202e",
			EndpointState: "used", Start: ago(26 * time.Hour),
		},
	}
}

func TestConns(t *testing.T) {
	b := newBed(t)
	b.connections = conns()
	for name, args := range map[string]string{
		"conns":            "conns",
		"conns-all":        "conns -A --sort=age",
		"conns-no-headers": "conns --no-headers",
		"conns-by-bytes":   "conns --sort=bytes --proto=tcp",
		"conns-by-rtt":     "conns --sort=rtt --proto=tcp",
		"conns-of-clients": "conns --group-by client",
		"conns-of-states":  "conns --group-by outcome --limit 2 --no-headers",
		"conns-removed":    "conns --endpoint-state removed",
		"conns-groups":     "conns --endpoint-state removed,used --group-by namespace -o wide",
	} {
		b.golden(name, args)
	}
}

func TestConnsWide(t *testing.T) {
	b := newBed(t)
	b.connections = conns()[:1]
	want := strings.Join(strings.Fields(`
ID SERVICE PROTO CLIENT CLIENT-POD FRONTEND KIND PROXY ENDPOINT POD NODE ENDPOINT-STATE STATE AGE IDLE FIRST-BYTE
	UP DOWN DIALS CLIENT-RTT ENDPOINT-RTT RETRANS CARRIED-BY
7 shop/cart:http tcp 10.0.0.9:41234 shop/web-1 10.96.0.10:80 ClusterIP 10.0.0.1:35012 10.1.0.3:8080 shop/cart-a n1
	removed open 5m3s 2s 1.5ms 1.2kB 45MB 2 0.4ms 12ms 1/20 userspace`), " ")
	got := b.run("conns", "-o", "wide")
	if words := strings.Join(strings.Fields(got.out), " "); words != want || got.err != nil {
		t.Errorf("%v\n%s", got.err, cmp.Diff(want, words))
	}
}

// Connections that flags choose, by their numbers in conns.
func TestConnsSelection(t *testing.T) {
	b := newBed(t)
	b.connections = conns()
	for args, want := range map[string][]int{
		"--service=shop/cart":               {0, 1},
		"--service=shop/cart:http":          {0, 1},
		"--service=cart,kube-dns":           {2, 0, 1},
		"--service=cart --service=kube-dns": {2, 0, 1},
		"-n kube-system":                    {2},
		"-n shop --state=open":              {0},
		"--pod=shop/cart-a":                 {0},
		"--pod=web-1":                       {0},
		"--ip=10.0.0.9":                     {2, 0},
		"--ip=fd00:96::/32":                 {1},
		"--port=53,8080":                    {2, 0},
		"--endpoint=10.1.0.3:8080":          {0},
		"--proto=udp":                       {2},
		"--older=10m":                       {2},
		"--older=2s --idle=1s --proto=tcp":  {0},
		"--limit=1":                         {2},
	} {
		got := b.run(append([]string{"conns", "-o", "json"}, strings.Fields(args)...)...)
		var rows []adminsocket.Connection
		if err := json.Unmarshal([]byte(got.out), &rows); err != nil || got.err != nil {
			t.Fatalf("conns %s: %v %v\n%s", args, got.err, err, got.out)
		}
		chosen := []adminsocket.Connection{}
		for _, i := range want {
			chosen = append(chosen, b.connections[i])
		}
		if d := cmp.Diff(chosen, rows, cmpopts.EquateComparable(addr(""))); d != "" {
			t.Errorf("conns %s (-want +got)\n%s", args, d)
		}
	}
}

// --outcome lists what has ended in the same table, by the ids of the records.
func TestConnsThatHaveEnded(t *testing.T) {
	b := newBed(t)
	b.connections = conns()
	b.observe(ended()...)
	for args, want := range map[string]string{
		"--outcome=ok":                                   "7",
		"--outcome=failed":                               "8 9",
		"--outcome=failed --service=cart":                "8",
		"--outcome=failed,ok --sort=bytes":               "7 8 9",
		"--outcome=failed,ok --sort=idle --limit=2":      "7 8",
		"--outcome=ok --pod=web-1 --port=80 --proto=tcp": "7",
		"--outcome=ok -n kube-system":                    "",
		"--outcome=failed --since=2026-11-21T12:30:00Z":  "9",
		"--outcome=failed --until=2026-11-21T12:30:00Z":  "8",
	} {
		got := b.run(append([]string{"conns", "--no-headers"}, strings.Fields(args)...)...)
		var ids []string
		for line := range strings.Lines(got.out) {
			ids = append(ids, strings.Fields(line)[0])
		}
		if is := strings.Join(ids, " "); is != want || got.err != nil {
			t.Errorf("conns %s: %s, want %s: %v", args, is, want, got.err)
		}
	}
	groups := b.run("conns", "--outcome=failed,ok", "--group-by=namespace", "--no-headers")
	if got := strings.Fields(groups.out); len(got) < 3 || got[0] != "shop" || got[1] != "2" || got[2] != "1" {
		t.Errorf("in groups: %q, %v", groups.out, groups.err)
	}
	row := strings.Fields(b.run("conns", "--no-headers", "--outcome=no_endpoint").out)
	if len(row) < 7 || row[1] != "shop/cart:http" || row[6] != "no_endpoint" {
		t.Errorf("prints %q", row)
	}
}

// JSON has no character that a terminal takes for a command, and a row a line.
func TestConnsAsJSON(t *testing.T) {
	b := newBed(t)
	b.connections = conns()
	got := b.run("conns", "-o", "json").out
	for _, r := range got {
		if r != '\n' && (r < ' ' || r > '~') {
			t.Errorf("prints %q", r)
		}
	}
	if n := strings.Count(got, "\n"); n != 1+3+1 {
		t.Errorf("%d lines:\n%s", n, got)
	}
	b.connections = nil
	if got := b.run("conns", "-o", "json").out; got != "[]\n" {
		t.Errorf("nothing is %q", got)
	}
}

// An empty answer says what there is none of, beside the output.
func TestNoConns(t *testing.T) {
	b := newBed(t)
	for args, want := range map[string]string{
		"":                              "No connections.",
		"--service=shop/cart":           "No connections to shop/cart.",
		"-n shop":                       "No connections in namespace shop.",
		"--service=shop/cart --idle=1m": "No connections to shop/cart match the flags.",
		"--pod=web-1":                   "No connections match the flags.",
		"-n a\x1bb":                     `No connections in namespace a\x1bb.`,
	} {
		got := b.run(append([]string{"conns"}, strings.Fields(args)...)...)
		if got.out != "" || got.errOut != want+"\n" || got.err != nil {
			t.Errorf("conns %s: %q %q %v, want %q", args, got.out, got.errOut, got.err, want)
		}
	}
}

// --watch prints lists until the context ends, which is no error.
func TestWatch(t *testing.T) {
	b := newBed(t)
	b.connections = conns()
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	got := run(ctx, "", "conns", "-w", "--interval=100ms", "--socket", b.socket)
	if n := strings.Count(got.out, "ID "); n < 2 || got.err != nil {
		t.Errorf("%d lists, %v", n, got.err)
	}
	if n := strings.Count(got.out, "\n\nID "); n < 1 {
		t.Errorf("no empty line between lists:\n%s", got.out)
	}
}

// A command line that cannot be meant ends with 2, a daemon that is not there with 3.
func TestExitCodes(t *testing.T) {
	b := newBed(t)
	for args, want := range map[string]int{
		"conns":                              0,
		"conns --ip=here":                    exitUsage,
		"conns --port=80000":                 exitUsage,
		"conns --no-such-flag":               exitUsage,
		"conns cart":                         exitUsage,
		"conns -A -n shop":                   exitUsage,
		"tail -A -n shop":                    exitUsage,
		"tail --last=-1":                     exitUsage,
		"tail --service=cart --not":          exitUsage,
		"tail --first=0":                     exitUsage,
		"tail --outcome=bad":                 exitUsage,
		"tail --since=yesterday":             exitUsage,
		"tail -f --input-file=-":             exitUsage,
		"tail -o wide":                       exitUsage,
		"tail --input-file=/nowhere":         1,
		"tail --socket=/nowhere":             exitUnreachable,
		"tail -f --socket=/nowhere":          exitUnreachable,
		"conns -o xml":                       exitUsage,
		"conns --sort=name":                  exitUsage,
		"conns -w --interval=1ms":            exitUsage,
		"conns --outcome=bad":                exitUsage,
		"conns --outcome=ok --older=1m":      exitUsage,
		"cut":                                exitUsage,
		"cut seven":                          exitUsage,
		"cut 7 --service=cart":               exitUsage,
		"cut 7":                              exitNothing,
		"cut --service=cart":                 exitNothing,
		"loglevel debug info":                exitUsage,
		"conns --socket=/nowhere":            exitUnreachable,
		"conns -w --socket=/nowhere":         exitUnreachable,
		"cut 7 --socket=/nowhere":            exitUnreachable,
		"loglevel --socket=/nowhere":         exitUnreachable,
		"loglevel debug --socket=/nowhere/x": exitUnreachable,
	} {
		line := strings.Fields(args)
		if !strings.Contains(args, "--socket") {
			line = append(line, "--socket", b.socket)
		}
		if got := run(t.Context(), "", line...); got.code() != want {
			t.Errorf("%s: code %d, want %d: %v", args, got.code(), want, got.err)
		}
	}
}
