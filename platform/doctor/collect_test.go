package doctor

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// A reader that hangs, even one that ignores its context, leaves its fact unknown after its limit; a late result is
// dropped.
func TestGatherIsBounded(t *testing.T) {
	var quick, slow Fact[int]
	var deaf Fact[string]
	release := make(chan struct{})
	defer close(release)
	began := time.Now()
	b := begin(t.Context(), 100*time.Millisecond)
	gather(b, "quick", &quick, func(context.Context) (int, error) { return 1, nil })
	gather(b, "slow", &slow, func(ctx context.Context) (int, error) {
		<-ctx.Done()
		return 0, errors.New("it says so itself")
	})
	gather(b, "deaf", &deaf, func(context.Context) (string, error) { <-release; return "late", nil })
	b.wait()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	if quick.Value != 1 || quick.Err != nil || slow.Err == nil || slow.Err.Error() != "it says so itself" {
		t.Errorf("quick %v, slow %v", quick, slow)
	}
	if deaf.Value != "" || deaf.Err == nil || !strings.Contains(deaf.Err.Error(), "deaf did not answer within 100ms") {
		t.Errorf("deaf %v", deaf)
	}
}

// A real system is looked at, with a daemon that answers, and with one that has too many Services to list them in time.
func TestCollect(t *testing.T) {
	f := Collect(t.Context(), Source{
		Daemon:   func(context.Context) (Daemon, error) { return Daemon{Version: "v1"}, nil },
		Services: func(context.Context) (Services, error) { select {} },
	})
	if f.Daemon.Err != nil || f.Daemon.Value.Version != "v1" {
		t.Errorf("the daemon is %+v", f.Daemon)
	}
	if f.Services.Err == nil || !strings.Contains(f.Services.Err.Error(), "did not answer within 800ms") {
		t.Errorf("the Services are %+v", f.Services)
	}
	r := Examine(f)
	isDaemon := func(f Finding) bool { return f.Check == "daemon" && f.Severity == OK }
	if r.System != runtime.GOOS || !slices.ContainsFunc(r.Findings, isDaemon) {
		t.Errorf("the report is %+v", r)
	}
	noServices := func(n NotChecked) bool { return n.Check == "services" && strings.Contains(n.Why, "800ms") }
	if !slices.ContainsFunc(r.NotChecked, noServices) {
		t.Errorf("not checked: %+v", r.NotChecked)
	}
}
