// Package plane runs etcd, kube-apiserver and kube-controller-manager as children of this program, each by running this
// program again, and obeys lines that stop, kill, pause and start them one by one. It knows their flags, and nothing of
// what they do; it imports nothing of Kubernetes.
package plane

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"time"
)

// The names of the programs: as an argument of this one, in lines of the console, and before ".log" in the folder.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
)

// plane is one control plane. It belongs to the goroutine that runs it.
type plane struct {
	dir      string
	programs []*program
	probe    *http.Client
	ended    chan *process // each one when it has
	ready    ready
}

// Run starts a control plane, tells out "ready FILE" when it is, and lets it run until ctx ends, or one of its programs
// does, or with Options.Console, in does. None of its processes is left when it returns, nor when this program is
// killed.
func Run(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	runtime.LockOSThread() // the children die with the thread that starts them: it must be there to the end
	defer runtime.UnlockOSThread()
	p, err := prepare(o)
	if err != nil {
		return err
	}
	defer p.end()
	began := time.Now()
	for _, g := range p.programs {
		if err := p.start(ctx, g); err != nil {
			return err
		}
		p.ready.Seconds[g.name] = time.Since(began).Seconds()
	}
	file, err := p.writeReady()
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "ready", file)
	var commands <-chan string
	if o.Console {
		commands = lines(ctx, in)
	}
	return p.serve(ctx, commands, out)
}

// prepare fills the folder with keys and kubeconfigs and decides who listens where.
func prepare(o Options) (*plane, error) {
	if err := emptyFolder(o.Dir); err != nil {
		return nil, err
	}
	at, err := places(o)
	if err != nil {
		return nil, err
	}
	ids, err := identify(o, at.url())
	if err != nil {
		return nil, err
	}
	return &plane{
		dir:      o.Dir,
		programs: []*program{etcd(o, at), apiserver(o, at), controllerManager(o, at)},
		probe:    newProbe(ids.ca),
		ended:    make(chan *process),
		ready:    newReady(o, at, ids),
	}, nil
}

func emptyFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("use folder %s: it has %s in it; name one that is empty or does not exist", dir, entries[0].Name())
	}
	return nil
}

// serve obeys lines until it is time to end.
func (p *plane) serve(ctx context.Context, lines <-chan string, out io.Writer) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case r := <-p.ended:
			if err := p.lost(r); err != nil {
				return err
			}
		case line, more := <-lines:
			if !more {
				return nil
			}
			fmt.Fprintln(out, answer(p.obey(ctx, line)))
		}
	}
}

// end kills all that still runs: nobody will miss what is in it.
func (p *plane) end() {
	for _, g := range p.programs {
		if g.running != nil {
			g.kill()
		}
	}
}
