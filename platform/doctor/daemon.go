package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

func daemonChecks() []Check {
	return []Check{{
		Name: "daemon", Severity: Error, What: "no portald answers at the admin socket",
		Why: "Rules that it left lead new connections to listeners that are closed, unless it left them to the kernel " +
			"(onExit: kernel); changes of endpoints are not followed.",
		Do: "journalctl -u portald, or kubectl -n kube-system logs -l app.kubernetes.io/name=portald; on Windows: " +
			"portald service status",
		run: daemonAnswers,
	}, {
		Name: "ready", Severity: Error, What: "portald has not applied its rules yet, or cannot",
		Why: "Services are not served, or only in their previous state.",
		Do:  "curl -s 127.0.0.1:10256/healthz; journalctl -u portald",
		run: daemonReady,
	}, {
		Name: "services", Severity: Warning, What: "service ports that are not served, or only in part",
		Why: "Their clients are refused, or are led to another Service that holds the address.",
		Do:  "portald explain NAMESPACE/NAME", run: servicesServed,
	}}
}

func daemonAnswers(f *Facts) result {
	switch err := f.Daemon.Err; {
	case err == nil:
		return well("%s, for %s", f.Daemon.Value, time.Since(f.Daemon.Value.Started).Round(time.Second))
	case errors.Is(err, ErrDenied):
		return unknown(err)
	default:
		return wrong("", "%v", err)
	}
}

func daemonReady(f *Facts) result {
	d, err := f.daemon()
	switch {
	case err != nil:
		return unknown(err)
	case d.Ready:
		return well("ready")
	case !d.Started.IsZero() && time.Since(d.Started) < startTime:
		return wrong("", "not ready: it started %s ago", time.Since(d.Started).Round(time.Second)).as(Warning)
	}
	return wrong("", "not ready")
}

// startTime is how long a start may take without being an error.
const startTime = 30 * time.Second

func servicesServed(f *Facts) result {
	all, err := f.services()
	if err != nil {
		return unknown(err)
	}
	out := result{ok: fmt.Sprintf("all %d service ports are served", len(all))}
	for _, s := range all {
		if seen := s.trouble(); seen != "" {
			service, _, _ := strings.Cut(s.Name, ":")
			out.problems = append(out.problems, problem{seen: s.Name + ": " + seen, do: "portald explain " + service})
		}
	}
	return out.firstOf("service ports")
}

// trouble is why a service port, or a frontend of it, is not served.
func (s Service) trouble() string {
	if s.Problem != "" {
		return s.Problem
	}
	for _, fe := range s.Frontends {
		if fe.Holder != "" {
			return fmt.Sprintf("%s is held by %s", fe.Address, fe.Holder)
		}
	}
	return ""
}

// carriedBy tells whether any service port is carried by the kernel, or else by a listener.
func (all Services) carriedBy(kernel bool) bool {
	return slices.ContainsFunc(all, func(s Service) bool { return s.Kernel == kernel })
}
