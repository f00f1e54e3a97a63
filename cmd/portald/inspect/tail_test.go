package inspect

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/record"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// ended are records of every kind: served after a second dial, not served, and of a name that means a terminal ill.
func ended() []*record.Record {
	cart := service.PortName{Namespace: "shop", Name: "cart", Port: "http", Protocol: inet.TCP}
	return []*record.Record{
		{
			ID: 7, CarriedBy: record.Userspace, Start: noon.Add(123 * time.Millisecond), Service: cart,
			Client: addr("10.0.0.9:41234"), ClientPod: "shop/web-1", OriginalDst: addr("10.96.0.10:80"),
			Endpoint: service.Endpoint{Addr: addr("10.1.0.3:8080"), Pod: "shop/cart-a", Node: "n1"},
			Attempts: []record.Attempt{
				{Endpoint: addr("10.1.0.2:8080"), Proxy: addr("10.0.0.1:35010"), Took: 200 * time.Microsecond,
					Err: "connection refused", Times: 2},
				{Endpoint: addr("10.1.0.3:8080"), Proxy: addr("10.0.0.1:35012"), Took: 150 * time.Microsecond, Times: 1},
			},
			BytesFromClient: 1234, BytesToEndpoint: 1234, BytesFromEndpoint: 45_001, BytesToClient: 45_001,
			Connect: 400 * time.Microsecond, FirstByte: time.Millisecond, Duration: 12 * time.Millisecond,
			ClosedBy: record.Client, CloseType: record.FIN, Outcome: record.OutcomeOK,
		},
		{
			ID: 8, CarriedBy: record.Userspace, Start: noon.Add(time.Minute), Service: cart,
			Client: addr("[fd00::9]:41234"), OriginalDst: addr("[fd00:96::10]:80"), Connect: -1, FirstByte: -1,
			Duration: 200 * time.Second, ClosedBy: record.Proxy, CloseType: record.Reset, Outcome: record.OutcomeNoEndpoint,
		},
		{
			ID: 9, CarriedBy: record.Userspace, Start: noon.Add(time.Hour),
			Service: service.PortName{Namespace: "kube-system", Name: "kube-dns", Port: "dns", Protocol: inet.UDP},
			Client:  addr("10.0.0.9:5353"), OriginalDst: addr("10.96.0.2:53"),
			Endpoint: service.Endpoint{Addr: addr("10.1.0.4:53"), Pod: "kube-system/dns-\x1b[2J\u202e"},
			Attempts: []record.Attempt{{Endpoint: addr("10.1.0.4:53"), Proxy: addr("10.0.0.1:53000"), Times: 1}},
			Duration: 2 * time.Second, ClosedBy: record.Endpoint, CloseType: record.Reset,
			Outcome: record.OutcomeEndpointReset, Error: "connection reset by peer",
		},
	}
}

func (b *bed) observe(all ...*record.Record) {
	for _, r := range all {
		b.stream.Observe(r)
	}
}

func TestTail(t *testing.T) {
	b := newBed(t)
	b.observe(ended()...)
	for name, line := range map[string]string{
		"tail":            "tail",
		"tail-dict":       "tail -o dict",
		"tail-pods":       "tail --group-by pod",
		"tail-clients":    "tail --group-by client --last 2 --no-headers",
		"tail-outcomes":   "tail --group-by outcome -o json",
		"tail-json":       "tail -o json",
		"tail-table":      "tail -o table",
		"tail-table-one":  "tail -o table --proto udp",
		"tail-no-headers": "tail -o table --no-headers --last 1",
	} {
		b.golden(name, line)
	}
}

// Records that flags choose, by their ids: from the daemon's memory, from its log, and from its log by the daemon.
func TestTailSelection(t *testing.T) {
	b := newBed(t)
	b.observe(ended()...)
	log := b.log("records", false)
	inFiles := newBed(t)
	check(t, os.Rename(b.log("records.json", false), inFiles.files.Path))
	for args, want := range map[string]string{
		"":                                    "7 8 9",
		"--last=2":                            "8 9",
		"--last=0":                            "",
		"--first=1":                           "7",
		"--last=2 --first=1":                  "8",
		"--service=shop/cart":                 "7 8",
		"--service=cart --service=kube-dns":   "7 8 9",
		"--service=cart --proto=udp":          "",
		"--service=c* --not --outcome=ok":     "8",
		"--not --service=cart":                "9",
		"--not --outcome=ok --proto=tcp":      "8",
		"-n shop":                             "7 8",
		"-A":                                  "7 8 9",
		"--from-pod=web-1":                    "7",
		"--to-pod=shop/cart-a":                "7",
		"--to-pod=web-1":                      "",
		"--ip=fd00::/16":                      "8",
		"--port=53":                           "9",
		"--endpoint=10.1.0.2":                 "7",
		"--outcome=failed":                    "8 9",
		"--attempts=>1":                       "7",
		"--attempts=0":                        "8",
		"--since=2026-11-21T12:30:00Z":        "9",
		"--until=2026-11-21T12:00:30Z":        "7",
		"--service=cart --until=1h --first=1": "7",
		"--since=2026-11-21T12:00:30Z --last=1 --until=2026-11-21T12:30:00Z": "8",
	} {
		for _, from := range [][]string{
			{"--socket", b.socket}, {"--input-file", log}, {"--socket", inFiles.socket, "--until", "0s"},
		} {
			if strings.Contains(args, "--until") {
				from = from[:2]
			}
			got := run(t.Context(), "", append(append([]string{"tail", "-o", "json"}, from...), strings.Fields(args)...)...)
			nothing := strings.Contains(got.errOut, "No records")
			if is := ids(t, got.out); is != want || got.err != nil || nothing != (want == "") {
				t.Errorf("tail %s %s: %q, want %q: %v %s", from, args, is, want, got.err, got.errOut)
			}
		}
	}
}

// An empty answer says what there is none of, beside the output.
func TestTailOfNothing(t *testing.T) {
	b := newBed(t)
	for args, want := range map[string]string{
		"tail":          "No records.\n",
		"tail -o table": "No records.\n",
		"tail --service shop/cart --not --port 1": "No records match not-port=1 service=shop/cart.\n",
	} {
		got := b.run(strings.Fields(args)...)
		if got.errOut != want || got.err != nil || got.out != "" {
			t.Errorf("%s: %q %q %v", args, got.out, got.errOut, got.err)
		}
	}
}

// log writes the records as a connection log does, compressed or not.
func (b *bed) log(name string, compressed bool) string {
	var text bytes.Buffer
	for _, r := range ended() {
		check(b.TB, json.NewEncoder(&text).Encode(connlog.From(r)))
	}
	if compressed {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		w.Write(text.Bytes())
		check(b.TB, w.Close())
		text = z
	}
	path := filepath.Join(b.TempDir(), name)
	check(b.TB, os.WriteFile(path, text.Bytes(), 0o600))
	return path
}

func ids(t *testing.T, out string) string {
	t.Helper()
	var all []string
	for line := range strings.Lines(out) {
		var l connlog.Line
		check(t, json.Unmarshal([]byte(line), &l))
		all = append(all, fmt.Sprint(l.ID))
	}
	return strings.Join(all, " ")
}

// Files are read in the order in which they are named; what is no record is left out and counted; standard input is one
// of them.
func TestTailInputFiles(t *testing.T) {
	b := newBed(t)
	zipped := b.log("records.1.gz", true)
	text, err := os.ReadFile(b.log("records", false))
	check(t, err)
	in := "a line of the daemon's log\n\n" + string(text) + `{"level":"info"}` + "\n" + string(text[:100])
	got := run(t.Context(), in, "tail", "-o", "json", "--input-file", zipped, "--input-file", "-", "--first", "5")
	if is := ids(t, got.out); is != "7 8 9 7 8" || got.err != nil || !strings.HasPrefix(got.errOut, "-: 1 line left out") {
		t.Errorf("%q %v %s", is, got.err, got.errOut)
	}
	got = run(t.Context(), in, "tail", "-o", "json", "--input-file", zipped, "--input-file", "-", "--last", "4")
	if is := ids(t, got.out); is != "9 7 8 9" || got.err != nil || !strings.HasPrefix(got.errOut, "-: 3 lines left out") {
		t.Errorf("%q %v %s", is, got.err, got.errOut)
	}
}

// A latest keeps the last of many, however many there were.
func TestLatest(t *testing.T) {
	for most := range 5 {
		k := latest{most: most}
		for id := range 23 {
			check(t, k.add(&connlog.Line{ID: uint64(id)}))
		}
		var got []uint64
		for _, l := range k.all() {
			got = append(got, l.ID)
		}
		if d := cmp.Diff([]uint64{18, 19, 20, 21, 22}[5-most:], append([]uint64{}, got...)); d != "" {
			t.Errorf("%d: %s", most, d)
		}
	}
}

// tailing is a tail -f that runs.
type tailing struct {
	out    *lockedBuffer
	errOut *lockedBuffer
	ended  chan error
	cancel context.CancelFunc
}

func (b *bed) follow(args ...string) *tailing {
	ctx, cancel := context.WithCancel(b.Context())
	f := &tailing{&lockedBuffer{}, &lockedBuffer{}, make(chan error, 1), cancel}
	root := newRoot()
	root.SetOut(f.out)
	root.SetErr(f.errOut)
	root.SetArgs(append([]string{"tail", "-f", "--socket", b.socket}, args...))
	go func() { f.ended <- root.ExecuteContext(ctx) }()
	b.Cleanup(cancel)
	return f
}

func (f *tailing) await(t *testing.T, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("prints\n%s\n%s", f.out, f.errOut)
}

func (f *tailing) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-f.ended:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("it does not end")
		return nil
	}
}

// tail -f prints what comes at once, with the past that was asked for before it, and ends well by Ctrl-C.
func TestFollow(t *testing.T) {
	b := newBed(t)
	all := ended()
	b.observe(all[:2]...)
	f := b.follow("-o", "table", "--last", "1")
	f.await(t, func() bool { return strings.Count(f.out.String(), "\n") == 2 })
	b.observe(all[2])
	f.await(t, func() bool { return strings.Count(f.out.String(), "\n") == 3 })
	f.cancel()
	if err := f.end(t); err != nil {
		t.Error(err)
	}
	lines := strings.Split(f.out.String(), "\n")
	column := strings.Index(lines[0], "OUTCOME")
	if !strings.HasPrefix(lines[1][column:], "no_endpoint") || !strings.Contains(lines[2], "10.1.0.4:53") {
		t.Errorf("prints\n%s", f.out)
	}
}

// tail -f --first 1 is a trigger: it waits for the first match, and ends well.
func TestFollowAsTrigger(t *testing.T) {
	b := newBed(t)
	all := ended()
	b.observe(all...)
	f := b.follow("--first", "1", "--outcome", "no_endpoint", "-o", "json")
	time.Sleep(100 * time.Millisecond)
	b.observe(all[0])
	select {
	case err := <-f.ended:
		t.Fatalf("it ended without a match: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	for ended := false; !ended; { // until it follows
		b.observe(all[1])
		select {
		case err := <-f.ended:
			check(t, err)
			ended = true
		case <-time.After(10 * time.Millisecond):
		}
	}
	if got := ids(t, f.out.String()); got != "8" {
		t.Errorf("prints %s", got)
	}
}

// The end of the daemon ends tail -f with the code of a daemon that is not there.
func TestFollowUntilTheDaemonEnds(t *testing.T) {
	b := newBed(t)
	b.observe(ended()...)
	f := b.follow("--last", "1")
	f.await(t, func() bool { return f.out.String() != "" })
	b.stop()
	if err := f.end(t); (result{err: err}).code() != exitUnreachable || !strings.Contains(err.Error(), "ended") {
		t.Errorf("ends with %v", err)
	}
}

// A gap, where the daemon could not keep records for a slow reader, is reported at its place.
func TestFollowSaysWhatIsMissing(t *testing.T) {
	b := newBed(t)
	f := b.follow("-o", "json", "--last", "1")
	r := ended()[0]
	b.observe(r)
	f.await(t, func() bool { b.observe(r); return f.out.String() != "" })
	f.out.Lock()
	for range 200_000 { // more than sockets hold
		b.observe(r)
	}
	f.out.Unlock()
	f.await(t, func() bool { return strings.Contains(f.errOut.String(), " records are missing here") })
}

// A file without a record is named, and why it has none.
func TestTailOfFilesWithoutRecords(t *testing.T) {
	empty, text := filepath.Join(t.TempDir(), "empty"), filepath.Join(t.TempDir(), "text")
	check(t, os.WriteFile(empty, nil, 0o600))
	check(t, os.WriteFile(text, []byte("10.0.0.9 ok\n10.0.0.9 ok\n"), 0o600))
	got := run(t.Context(), "", "tail", "--input-file", empty, "--input-file", text)
	want := empty + ": has no record: it is empty\n" +
		text + ": has no record: none of its 2 lines is one; --connection-log-format json writes some\nNo records.\n"
	if got.err != nil || got.out != "" || got.errOut != want {
		t.Errorf("%v %q %s, want %s", got.err, got.out, got.errOut, want)
	}
}

// tail says from when on the daemon has records if earlier ones were asked for, and where they are.
func TestTailSaysWhatIsForgotten(t *testing.T) {
	b := newBed(t)
	b.observe(ended()...)
	begin := time.Date(2026, 11, 21, 3, 10, 5, 0, time.UTC)
	const text = "The daemon's memory has no records from before 2026-11-21 03:10:05.000 UTC, "
	for _, test := range []struct {
		line, log string
		started   time.Time
		want      string
	}{
		{"tail", "", begin, "it started then: without a connection log they are gone."},
		{"tail --first 5", "-", begin, "it started then: they are in the log of its container or unit"},
		{"tail --first 5", "/var/log/portald.json", begin,
			"it started then: --since reads them from /var/log/portald.json, the connection log."},
		{"tail", "", begin.Add(-time.Hour), "it keeps no more: "},
		{"tail --last 2", "", begin, ""},
	} {
		b.info = adminsocket.Info{Started: test.started, RecordsSince: begin, ConnectionLog: test.log}
		got := b.run(strings.Fields(test.line)...)
		said := strings.Contains(got.errOut, text+test.want)
		if got.err != nil || test.want != "" && !said || test.want == "" && strings.Contains(got.errOut, "memory") {
			t.Errorf("%s: %v, said %q, want %q", test.line, got.err, got.errOut, test.want)
		}
	}
}
