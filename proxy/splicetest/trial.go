package splicetest

import (
	"context"
	"testing"
	"time"
)

// trial is one run of a scenario.
type trial struct {
	*testing.T
	engine Engine
	ports  *ports
}

// longest is how long anything that has to happen may take: by Wine, on a busy machine. No scenario asserts it.
const longest = 2 * time.Minute

// sub runs a part of a scenario that has a result of its own.
func (t *trial) sub(name string, run func(*trial)) {
	t.Helper()
	t.Run(name, func(sub *testing.T) { run(&trial{T: sub, engine: t.engine, ports: t.ports}) })
}

// both runs a part for either address family, with its loopback address.
func (t *trial) both(run func(t *trial, host string)) {
	t.Helper()
	for _, host := range []string{loopback, loopback6} {
		t.sub(host, func(t *trial) { run(t, host) })
	}
}

func (t *trial) must(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits for a condition.
func (t *trial) eventually(what string, met func() bool) {
	t.Helper()
	for end := time.Now().Add(longest); !met(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", longest, what)
		}
	}
}

func (t *trial) timeout(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
