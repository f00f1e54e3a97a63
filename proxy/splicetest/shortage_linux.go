package splicetest

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/splice"
)

func shortageScenarios() []scenario {
	return []scenario{{name: "OutOfDescriptors", run: outOfDescriptors, scope: process}}
}

// outOfDescriptors: the process as a whole runs out. Clients wait in the listener's queue, and are served once there
// are descriptors. It runs in a child, since the limit cannot be raised again.
func outOfDescriptors(t *trial) {
	unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 128, Max: 128})
	d := t.start(splice.Options{})
	f := d.tcp(echoServer(t))
	hoard := openAll()
	free := func(n int) {
		for _, f := range hoard[:n] {
			f.Close()
		}
		hoard = hoard[n:]
	}
	free(1) // for the client itself
	c := dialTCP(t, f.at)
	c.Write([]byte("x"))
	t.eventually("an accept fails", func() bool { return d.Stats().AcceptErrors > 0 })
	free(20)
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatalf("not served once there were descriptors: %v, %+v", err, d.Stats())
	}
}

// openAll takes all descriptors that are left.
func openAll() (files []*os.File) {
	for {
		f, err := os.Open("/dev/null")
		if err != nil {
			return files
		}
		files = append(files, f)
	}
}
