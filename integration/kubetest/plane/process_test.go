package plane

import (
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "fake" {
		fake(os.Args[2])
	}
	os.Exit(m.Run())
}

// fake is a program that is well as long as it runs.
func fake(address string) {
	log.Print("this is fake")
	log.Fatal(http.ListenAndServe(address, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
}

// bed is a plane with one program, which a test runs by lines.
type bed struct {
	*testing.T
	*plane
	say     io.WriteCloser
	answers io.Reader
	end     chan error
}

func newBed(t *testing.T) *bed {
	t.Helper()
	l, err := listenSomewhere(netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	p := &plane{
		dir:      t.TempDir(),
		programs: []*program{{name: "fake", args: []string{address}, health: "http://" + address}},
		probe:    &http.Client{Timeout: 100 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}},
		ended:    make(chan *process),
		ready:    ready{PIDs: map[string]int{}},
	}
	in, say := io.Pipe()
	answers, out := io.Pipe()
	b := &bed{T: t, plane: p, say: say, answers: answers, end: make(chan error, 1)}
	go func() {
		runtime.LockOSThread() // never unlocked, as in Run
		err := p.serve(t.Context(), lines(t.Context(), in), out)
		p.end()
		b.end <- err
	}()
	t.Cleanup(func() { say.Close() })
	return b
}

func (b *bed) told(line, want string) {
	b.Helper()
	if _, err := io.WriteString(b.say, line+"\n"); err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 1000)
	n, err := b.answers.Read(buf)
	if err != nil {
		b.Fatal(err)
	}
	if got := string(buf[:n]); !strings.HasPrefix(got, want) {
		b.Fatalf("%s: answer %q, want %q", line, got, want)
	}
}

func (b *bed) health() error { return b.check(b.Context(), b.programs[0].health) }

func TestLinesAreObeyed(t *testing.T) {
	b := newBed(t)
	b.told("kill fake", "error")
	b.told("start fake", "ok")
	first := b.ready.PIDs["fake"]
	b.told("start fake", "error")
	for range 10 {
		b.told("pause fake", "ok")
		var timeout net.Error
		if err := b.health(); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Fatalf("a paused program said %v, want silence", err)
		}
		b.told("cont fake", "ok")
		if err := b.health(); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{"kill fake", "stop fake", "pause fake"} {
		b.told(line, "ok")
		if line == "pause fake" {
			b.told("stop fake", "ok")
		}
		if err := b.health(); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: %v, want a refusal", line, err)
		}
		b.told("start fake", "ok")
	}
	if b.ready.PIDs["fake"] == first {
		t.Error("the new process has the old one's number")
	}
	for _, line := range []string{"", "start", "start it", "pat fake"} {
		b.told(line, "error")
	}
}

func TestALostProgramEndsAll(t *testing.T) {
	b := newBed(t)
	b.told("start fake", "ok")
	if err := syscall.Kill(b.ready.PIDs["fake"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	err := <-b.end
	if err == nil || !strings.Contains(err.Error(), "killed") || !strings.Contains(err.Error(), "this is fake") {
		t.Errorf("got %v, want how it ended and what it said", err)
	}
}

func TestAProgramThatDoesNotStartSaysWhy(t *testing.T) {
	b := newBed(t)
	b.programs[0].args = []string{"nowhere:none"}
	b.told("start fake", "error fake has ended")
}

func TestTheEndOfLinesIsTheEnd(t *testing.T) {
	b := newBed(t)
	b.told("start fake", "ok")
	b.say.Close()
	if err := <-b.end; err != nil {
		t.Error(err)
	}
	if err := b.health(); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v, want a refusal", err)
	}
}
