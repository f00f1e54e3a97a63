package plane

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
)

// lines reads from in, and closes the channel at its end.
func lines(ctx context.Context, in io.Reader) <-chan string {
	out := make(chan string)
	go func() {
		defer close(out)
		for s := bufio.NewScanner(in); s.Scan(); {
			select {
			case out <- s.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// obey does what a line says: VERB PROGRAM.
func (p *plane) obey(ctx context.Context, line string) error {
	verb, name, _ := strings.Cut(line, " ")
	g := p.program(name)
	if g == nil {
		return fmt.Errorf("%q: no program %q", line, name)
	}
	if verb == "start" {
		return p.restart(ctx, g)
	}
	if g.running == nil {
		return fmt.Errorf("%q: it does not run", line)
	}
	switch verb {
	case "stop":
		return g.stop()
	case "kill":
		g.kill()
		return nil
	case "pause":
		return g.pause()
	case "cont":
		return g.resume()
	default:
		return fmt.Errorf("%q: know start, stop, kill, pause and cont", line)
	}
}

// restart starts a program again, and has the new process known.
func (p *plane) restart(ctx context.Context, g *program) error {
	if err := p.start(ctx, g); err != nil {
		return err
	}
	_, err := p.writeReady()
	return err
}

func (p *plane) program(name string) *program {
	for _, g := range p.programs {
		if g.name == name {
			return g
		}
	}
	return nil
}

// answer is one line.
func answer(err error) string {
	if err != nil {
		return "error " + strings.ReplaceAll(err.Error(), "\n", " | ")
	}
	return "ok"
}
