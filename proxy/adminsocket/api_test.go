package adminsocket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/payload"
)

// fake is a daemon with these connections.
type fake struct {
	open     []Connection
	level    string
	rtt      map[uint64]float64 // by id, in ms
	tcpInfos int                // for how many connections TCP_INFO was asked
}

func (f *fake) daemon() Daemon {
	return Daemon{
		Info:        func() Info { return Info{Version: "v1.2.3", API: Version, LogLevel: f.level} },
		Connections: func(context.Context) iter.Seq[*Connection] { return yielding(f.open) },
		AddTCP: func(_ context.Context, to []Connection) {
			for i := range to {
				to[i].EndpointTCP = &TCP{RTTms: f.rtt[to[i].ID]}
			}
			f.tcpInfos += len(to)
		},
		Changes: changes.NewLog(16),
		Payload: payload.NewRing(1 << 20).Content,
		Cut: func(id uint64) bool {
			return slices.ContainsFunc(f.open, func(c Connection) bool { return c.ID == id })
		},
		SetLogLevel: func(level string) error {
			if level == "loud" {
				return errors.New("must be lower")
			}
			f.level = level
			return nil
		},
	}
}

// yielding yields connections as a daemon does: each overwrites the one before.
func yielding(all []Connection) iter.Seq[*Connection] {
	return func(yield func(*Connection) bool) {
		var c Connection
		for _, c = range all {
			if !yield(&c) {
				return
			}
		}
	}
}

// serve serves a handler at a socket until the test ends, and returns a client of it.
func serve(t *testing.T, h http.Handler) *Client {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("this is shown over a Unix socket; the pipe of Windows has a test of its own")
	}
	path := filepath.Join(t.TempDir(), "run", "s")
	l, err := Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(h)
	_ = server.Listener.Close()
	server.Listener = l
	server.Start()
	c := NewClient(path)
	t.Cleanup(func() { c.Close(); server.Close() })
	return c
}

// full sets each field of a struct to a value of its own.
func full(v reflect.Value, n *int) {
	*n++
	switch at := v.Addr().Interface().(type) {
	case *netip.AddrPort:
		*at = netip.AddrPortFrom(netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", *n)), uint16(*n))
	case *time.Time:
		*at = time.Date(2026, 1, 2, 3, 4, *n, 500, time.UTC)
	case **TCP:
		*at = new(TCP)
		full(reflect.ValueOf(*at).Elem(), n)
	case **float64:
		*at = new(float64(*n) / 7)
	case *string:
		*at = fmt.Sprintf("text <%d> \"\u2028\x00\x1b[31m\\", *n)
	case *int:
		*at = *n
	case *int64:
		*at = -int64(*n) << 40
	case *uint64:
		*at = uint64(*n) << 60
	case *uint32:
		*at = uint32(*n)
	case *float64:
		*at = float64(*n) / 3
	default:
		for i := range v.NumField() {
			full(v.Field(i), n)
		}
	}
}

// A connection is written as encoding/json would: each field, and whatever a name contains.
func TestConnectionIsWrittenAsJSON(t *testing.T) {
	var c Connection
	n := 0
	full(reflect.ValueOf(&c).Elem(), &n)
	for _, c := range []Connection{c, {}} {
		want, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := appendConnection(nil, &c)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), string(got)); d != "" {
			t.Errorf("(-want +got)\n%s", d)
		}
	}
}

// A client gets over the socket what the daemon has.
func TestClientSeesConnections(t *testing.T) {
	f := &fake{}
	c := serve(t, NewHandler(f.daemon()))
	for _, open := range [][]Connection{{}, {connection(1)}, {connection(1), connection(2), connection(3)}} {
		f.open = open
		got, err := c.Connections(t.Context(), ConnectionQuery{})
		if err != nil || f.tcpInfos != 0 {
			t.Fatal(err, f.tcpInfos)
		}
		if d := cmp.Diff(open, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); d != "" {
			t.Errorf("(-want +got)\n%s", d)
		}
	}
}

func connection(id uint64) Connection {
	return Connection{
		ID: id, CarriedBy: "userspace", Service: "shop/cart:http", Protocol: "tcp", State: "open",
		Client: netip.MustParseAddrPort("10.1.0.9:50000"), OriginalDst: netip.MustParseAddrPort("10.96.0.10:80"),
		Endpoint: netip.MustParseAddrPort("10.1.0.1:8080"), Pod: "shop/cart-a", ClientPod: "web/front-1",
		Start: time.Now().UTC(), LastMoved: time.Now().UTC(),
	}
}

// Cutting says which connections there are, and which not.
func TestCut(t *testing.T) {
	f := &fake{open: []Connection{connection(1), connection(3)}}
	c := serve(t, NewHandler(f.daemon()))
	got, err := c.Cut(t.Context(), 1, 2, 3)
	if err != nil || !slices.Equal(got.Cut, []uint64{1, 3}) || !slices.Equal(got.Missing, []uint64{2}) {
		t.Errorf("%v %v", got, err)
	}
	if _, err := c.Cut(t.Context(), 2); err != nil { // nothing is cut, and nothing changes
		t.Error(err)
	}
	var told []string
	err = c.Changes(t.Context(), ChangeQuery{Last: 10}, func(l *changes.Line) error {
		told = append(told, l.Text)
		return nil
	}, nil)
	if err != nil || !slices.Equal(told, []string{"connections or UDP sessions cut by portald cut: 2"}) {
		t.Errorf("%q %v", told, err)
	}
}

func TestSetLogLevel(t *testing.T) {
	f := &fake{}
	c := serve(t, NewHandler(f.daemon()))
	if err := c.SetLogLevel(t.Context(), "debug"); err != nil || f.level != "debug" {
		t.Errorf("%v %q", err, f.level)
	}
	err := c.SetLogLevel(t.Context(), "loud")
	if err == nil || err.Error() != `level "loud": must be lower` || f.level != "debug" {
		t.Errorf("%v %q", err, f.level)
	}
}
