package splice

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/service"
)

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
