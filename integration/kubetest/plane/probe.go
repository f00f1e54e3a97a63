package plane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// slowest is how long a program may take to become ready, on a machine that compiles meanwhile.
const slowest = 2 * time.Minute

func newProbe(ca *x509.Certificate) *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	return &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true},
	}
}

// await returns when a process is ready.
func (p *plane) await(ctx context.Context, r *process) error {
	ctx, cancel := context.WithTimeout(ctx, slowest)
	defer cancel()
	for {
		err := p.check(ctx, r.program.health)
		if err == nil {
			return nil
		}
		select {
		case <-r.done:
			return r.failure()
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; it said:\n%s", r.program.name, err, tail(r.log))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (p *plane) check(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := p.probe.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		return nil
	}
	body, _ := io.ReadAll(response.Body) // what came of it says enough
	return fmt.Errorf("GET %s: %s: %s", url, response.Status, body)
}

func (g *program) log(dir string) string { return filepath.Join(dir, g.name+".log") }

// tail is the end of a log, or why there is none.
func tail(log string) string {
	said, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	return string(said[max(0, len(said)-4000):])
}
