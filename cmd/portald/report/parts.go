package report

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"github.com/portald/portald/proxy/adminsocket"
)

// How much of each kind a report has at most.
const (
	mostExplained = 40
	mostRecords   = "500"
	mostChanges   = "10000"
)

// collect adds all parts. One that fails does not keep the next from being tried.
func (c *collection) collect(ctx context.Context) {
	c.add(ctx, "versions.txt", "versions of portald, the kernel and the tools that write its rules", c.versions)
	c.get(ctx, "daemon.json", "what the daemon says of itself", "/v1/info")
	c.run(ctx, "doctor.txt", "problems of the node", "doctor", "--verbose")
	c.get(ctx, "configuration.json", "the configuration in force, without secrets", "/v1/configuration")
	c.run(ctx, "services.txt", "service ports", "services", "-o", "wide")
	c.get(ctx, "services.json", "the same, with all fields", "/v1/services")
	c.run(ctx, "endpoints.txt", "endpoints", "endpoints", "-o", "wide")
	c.get(ctx, "endpoints.json", "the same, with all fields", "/v1/endpoints")
	c.run(ctx, "changes.txt", "what changed, the oldest first", "changes", "--last", mostChanges)
	c.run(ctx, "changes.json", "the same, with all fields", "changes", "--last", mostChanges, "-o", "json")
	c.run(ctx, "failures.txt", "the last records of connections that failed", "tail", "--outcome", "failed", "--last",
		mostRecords)
	c.run(ctx, "failures.json", "the same, with all fields", "tail", "--outcome", "failed", "--last", mostRecords, "-o",
		"json")
	c.get(ctx, "metrics.txt", "the metrics of the daemon", "/v1/metrics")
	c.explain(ctx)
}

// explain adds an explanation of each service port that has a problem.
func (c *collection) explain(ctx context.Context) {
	names, err := c.troubled(ctx)
	if err != nil {
		c.missing = append(c.missing, missing{"explain/", err.Error()})
		return
	}
	for i, name := range names {
		if i == mostExplained || ctx.Err() != nil {
			c.missing = append(c.missing, missing{"explain/", fmt.Sprintf(
				"of %d service ports with a problem the first %d are explained", len(names), i)})
			return
		}
		c.run(ctx, fmt.Sprintf("explain/%02d.txt", i+1), "why "+name+" is treated as it is", "explain", name)
	}
}

// troubled returns the service ports that have a problem, as explain takes them: those that are not served as asked or
// have no endpoint first, then those with the most failed connections.
func (c *collection) troubled(ctx context.Context) ([]string, error) {
	services, err := c.client.Services(ctx, adminsocket.ServiceQuery{})
	if err != nil {
		return nil, err
	}
	ejected, err := c.client.Endpoints(ctx, adminsocket.EndpointQuery{States: []string{adminsocket.Ejected}})
	if err != nil {
		return nil, err
	}
	var grave, failing []adminsocket.Service
	for _, s := range services {
		leftOut := slices.ContainsFunc(ejected, func(e adminsocket.Endpoint) bool {
			return e.Service == s.Name && e.Protocol == s.Protocol
		})
		switch {
		case s.Problem != "" || s.Usable == 0 || leftOut:
			grave = append(grave, s)
		case failed(s) > 0:
			failing = append(failing, s)
		}
	}
	slices.SortStableFunc(failing, func(a, b adminsocket.Service) int { return cmp.Compare(failed(b), failed(a)) })
	var names []string
	for _, s := range append(grave, failing...) {
		names = append(names, s.Name+"/"+s.Protocol)
	}
	return names, nil
}

func failed(s adminsocket.Service) uint64 {
	if s.Failed == nil {
		return 0
	}
	return *s.Failed
}

// versions prints what portald runs on.
func (c *collection) versions(ctx context.Context, out io.Writer) error {
	line := func(what, value string) { fmt.Fprintf(out, "%-18s %s\n", what, cmp.Or(strings.TrimSpace(value), "-")) }
	line("portald", c.version+" "+runtime.GOOS+"/"+runtime.GOARCH+" (this command; daemon.json has the daemon's)")
	line("CPUs", fmt.Sprint(runtime.NumCPU()))
	if runtime.GOOS == "windows" {
		line("Windows", first(ctx, "cmd", "/c", "ver"))
		return nil
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // a dash says that it is not known
	line("kernel", string(kernel))
	line("system", systemName())
	for _, tool := range []string{"iptables", "ip6tables", "nft", "ipvsadm", "ipset", "ip"} {
		flag := "--version"
		if tool == "ip" {
			flag = "-V"
		}
		line(tool, first(ctx, tool, flag))
	}
	return nil
}

// systemName is the distribution's name for itself.
func systemName() string {
	text, _ := os.ReadFile("/etc/os-release")
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			return strings.Trim(strings.TrimSpace(name), `"`)
		}
	}
	return ""
}

// first is the first line of what a command prints, or why there is none.
func first(ctx context.Context, name string, args ...string) string {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return err.Error()
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}
