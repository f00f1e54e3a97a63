package splice

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/service"
)

// With its share of descriptors used up the engine lets clients wait and goes on when some are free again.
func TestShareOfDescriptors(t *testing.T) {
	var troubles []error
	var mu sync.Mutex
	r := newRig(t, Options{Descriptors: 1 + 2*4, Trouble: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		troubles = append(troubles, err)
	}})
	_, at := r.open(t, service.TCP, "127.0.0.1", serveTCP(t, "127.0.0.1", echo))
	var held []*net.TCPConn
	for range 4 {
		c := dialTCP(t, at)
		c.Write([]byte("x"))
		io.ReadFull(c, make([]byte, 1))
		held = append(held, c)
	}
	waiting := dialTCP(t, at)
	waiting.Write([]byte("y"))
	waiting.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := waiting.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a fifth connection was served, or refused: %v", err)
	}
	held[0].Close()
	waiting.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.ReadFull(waiting, make([]byte, 1)); err != nil {
		t.Fatalf("not served after one had ended: %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(troubles) == 0 || !errors.Is(troubles[0], unix.EMFILE) || r.Stats().AcceptErrors == 0 {
		t.Errorf("troubles %v, stats %+v", troubles, r.Stats())
	}
}

// The process as a whole runs out: in a child, since the limit cannot be raised again.
func TestOutOfDescriptors(t *testing.T) {
	if os.Getenv("SPLICE_CHILD") == "" {
		runChild(t, "TestOutOfDescriptors")
		return
	}
	unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 128, Max: 128})
	r := newRig(t, Options{})
	_, at := r.open(t, service.TCP, "127.0.0.1", serveTCP(t, "127.0.0.1", echo))
	var hoard []*os.File
	for {
		f, err := os.Open("/dev/null")
		if err != nil {
			break
		}
		hoard = append(hoard, f)
	}
	free := func(n int) {
		for _, f := range hoard[:n] {
			f.Close()
		}
		hoard = hoard[n:]
	}
	free(1) // for the client itself
	c := dialTCP(t, at)
	c.Write([]byte("x"))
	time.Sleep(50 * time.Millisecond)
	if r.Stats().AcceptErrors == 0 {
		t.Error("accepting went well without descriptors")
	}
	free(20)
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatalf("not served once there were descriptors: %v, %+v", err, r.Stats())
	}
}

func runChild(t *testing.T, test string) {
	t.Helper()
	cmd := command(t, test)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
		t.Fatalf("%v\n%s", err, out)
	}
}
