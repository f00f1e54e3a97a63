package handover

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

// program is a client or server of package load on a host.
type program struct {
	b     *bed.Bed
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan []byte // that it has written
	bad   bytes.Buffer
}

// run starts one with these arguments. The end of the test ends it.
func run(b *bed.Bed, on *topology.Host, args ...string) *program {
	b.Helper()
	own, err := os.Executable()
	b.Must(err)
	ctx, cancel := context.WithCancel(context.Background())
	p := &program{b: b, name: args[0] + " on " + on.Name, lines: make(chan []byte, 4)}
	p.cmd = on.Command(ctx, own, append([]string{loadCommand}, args...)...)
	p.cmd.Stderr = &p.bad
	p.in, err = p.cmd.StdinPipe()
	b.Must(err)
	out, err := p.cmd.StdoutPipe()
	b.Must(err)
	b.Must(p.cmd.Start())
	b.Cleanup(func() {
		cancel()
		_ = p.cmd.Wait() // it has ended, or was killed
	})
	go func() {
		defer close(p.lines)
		for r := bufio.NewReader(out); ; {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			p.lines <- line
		}
	}()
	return p
}

// tell writes a line to it.
func (p *program) tell(line string) {
	p.b.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		p.b.Fatalf("%s: %v: %s", p.name, err, &p.bad)
	}
}

// says waits for the next line that it writes, and decodes it unless to is nil.
func (p *program) says(to any) {
	p.b.Helper()
	select {
	case line, more := <-p.lines:
		if !more {
			_ = p.cmd.Wait()
			p.b.Fatalf("%s has ended: %s", p.name, &p.bad)
		}
		if to != nil {
			p.b.Must(json.Unmarshal(line, to))
		}
	case <-time.After(4 * time.Minute):
		p.b.Fatalf("%s says nothing", p.name)
	}
}
