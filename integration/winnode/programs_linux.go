package winnode

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/portald/portald/integration/wine"
)

// Programs are the programs that all nodes run.
type Programs struct {
	Portald      string // path of portald.exe
	netsh        string
	installation wine.Installation
	starter      []string
}

// Build builds the programs into a directory, and has Wine installed. Each program of a node is started by the command
// line starter, which has to call wine.BindExactly; without one this process calls it, for all that it starts.
func Build(ctx context.Context, dir string, starter ...string) (p Programs, err error) {
	p = Programs{Portald: filepath.Join(dir, "portald.exe"), netsh: filepath.Join(dir, "netsh.exe"), starter: starter}
	for path, pkg := range map[string]string{
		p.Portald: "github.com/portald/portald/cmd/portald", p.netsh: "github.com/portald/portald/integration/winnode/netsh",
	} {
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-o", path, pkg)
		cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return p, fmt.Errorf("build %s for Windows: %w\n%s", pkg, err, out)
		}
	}
	if len(starter) == 0 {
		if err := wine.BindExactly(); err != nil {
			return p, err
		}
	}
	p.installation, err = wine.Open(ctx)
	return p, err
}
