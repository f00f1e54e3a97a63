package httpserver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus/hooks/test"

	"github.com/portald/portald/proxy/servertest"
)

// options returns the options of a server on a free loopback port, and its address once it is bound.
func options() (Options, <-chan string) {
	daemon, _ := test.NewNullLogger()
	listen, at := servertest.Listen()
	return Options{Name: "test", Address: "127.0.0.1:0", Log: daemon, Listen: listen}, at
}

func TestServerCutsWhoWillNotEnd(t *testing.T) {
	o, at := options()
	began := make(chan struct{})
	stop := servertest.Serve(t, New(o, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
	})))
	c, err := net.Dial("tcp", <-at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	<-began
	start := time.Now()
	if err := stop(); err != nil || time.Since(start) > 5*time.Second {
		t.Fatalf("%v after %v", err, time.Since(start))
	}
}

// deaf is a listener that nobody reaches, and that synctest knows to wait.
type deaf struct{ closed chan struct{} }

func (d deaf) Accept() (net.Conn, error) { <-d.closed; return nil, net.ErrClosed }
func (d deaf) Close() error              { close(d.closed); return nil }
func (d deaf) Addr() net.Addr            { return &net.TCPAddr{} }

func TestServerTriesToBindAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := options()
		daemon, told := test.NewNullLogger()
		o.Log = daemon
		var failures []error
		o.Failed = func(err error) { failures = append(failures, err) }
		start, took, tries := time.Now(), time.Duration(0), 0
		o.Listen = func(context.Context, string, string) (net.Listener, error) {
			if tries++; tries < 4 {
				return nil, errors.New("address already in use")
			}
			took = time.Since(start)
			return deaf{make(chan struct{})}, nil
		}
		stop := servertest.Serve(t, New(o, nil))
		time.Sleep(time.Minute)
		synctest.Wait()
		if took != 15*time.Second {
			t.Errorf("bound after %v", took)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if len(failures) != 1 {
			t.Errorf("told %v, want one", failures)
		}
		const want = "Cannot bind test server, trying again every 5s\ntest server is bound to 127.0.0.1:0 now"
		if messages(told) != want {
			t.Errorf("told %q", messages(told))
		}
	})
}

// messages returns what the daemon's log was told, one line each.
func messages(told *test.Hook) string {
	var out []string
	for _, e := range told.AllEntries() {
		out = append(out, e.Message)
	}
	return strings.Join(out, "\n")
}

func TestServerEndsWhileItCannotBind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := options()
		o.Listen = func(context.Context, string, string) (net.Listener, error) { return nil, errors.New("no") }
		stop := servertest.Serve(t, New(o, nil))
		time.Sleep(12 * time.Second)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestServerFailsHard(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	o, _ := options()
	o.Address, o.HardFail, o.Listen = taken.Addr().String(), true, nil
	var told error
	o.Failed = func(err error) { told = err }
	err = New(o, nil).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "bind test server: ") {
		t.Errorf("error %v", err)
	}
	if !errors.Is(err, told) {
		t.Errorf("told %v", told)
	}
}

func TestServerWithoutAddressIsOff(t *testing.T) {
	if err := New(Options{}, nil).Run(t.Context()); err != nil {
		t.Error(err)
	}
}
