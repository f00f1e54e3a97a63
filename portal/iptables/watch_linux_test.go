package iptables

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal"
)

// Any change by others counts as a disturbance until the next audit; the Writer's own changes never do. The audit finds
// damage alone.
func TestOthersDisturb(t *testing.T) {
	lockFile(t)
	variants(t, func(variant string) {
		t.Run(variant, func(t *testing.T) {
			netnstest.Enter(t)
			w := newWriter(t, testOptions(nil, variant))
			if w.Disturbed() {
				t.Error("disturbed before anything was written")
			}
			portals := spreads(3, 2)
			replace := func() {
				t.Helper()
				if err := w.Replace(t.Context(), portals); err != nil {
					t.Fatal(err)
				}
				if w.Disturbed() {
					t.Error("disturbed by a Replace of its own")
				}
			}
			replace()
			for range 3 {
				p := portals[0]
				p.Target = portal.Reject{}
				for _, c := range []portal.Change{{Frontend: p.Frontend, Portal: &p}, {Frontend: p.Frontend, Portal: &portals[0]}} {
					if err := w.Update(t.Context(), []portal.Change{c}); err != nil {
						t.Fatal(err)
					}
					if w.Disturbed() {
						t.Error("disturbed by an Update of its own")
					}
				}
			}
			for _, test := range []struct {
				change string
				bad    bool
			}{
				{"-t nat -N OTHERS", false},
				{"-t nat -A OTHERS -j RETURN", false},
				{"-t filter -A FORWARD -s 192.0.2.9/32 -j ACCEPT", false},
				{"-t nat -F PORTALD-SERVICES", true},
				{"-t nat -D PREROUTING -j PORTALD-SERVICES", true},
				{"-t nat -F", true},
				{"-t filter -F", true},
				{"-t filter -I PORTALD-GUARD -j ACCEPT", true},
			} {
				others(t, variant, test.change)
				if !w.Disturbed() {
					t.Errorf("%s: not disturbed", test.change)
				}
				if err := w.Audit(t.Context()); (err != nil) != test.bad {
					t.Errorf("%s: %v", test.change, err)
				}
				if test.bad {
					replace()
				} else if w.Disturbed() {
					t.Errorf("%s: disturbed after an audit", test.change)
				}
			}
		})
	})
}

// others changes rules as another program does.
func others(t *testing.T, variant, change string) {
	t.Helper()
	args := append([]string{"-w"}, strings.Fields(change)...)
	if _, err := platform.Run(context.Background(), "iptables-"+variant, args, nil); err != nil {
		t.Fatal(err)
	}
}

// With more rules than an audit looks at, it still finds a chain that was flushed and a rule that is gone.
func TestAuditOfManyRulesFindsWhatIsGone(t *testing.T) {
	lockFile(t)
	variants(t, func(variant string) {
		t.Run(variant, func(t *testing.T) {
			netnstest.Enter(t)
			w := newWriter(t, testOptions(nil, variant))
			portals := spreads(600, 10)
			replace := func() {
				t.Helper()
				if err := w.Replace(t.Context(), portals); err != nil {
					t.Fatal(err)
				}
				if err := w.Audit(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			replace()
			if glances := w.hosts[0].glances(); glances != (variant == "nft") {
				t.Fatalf("looks at a part alone: %t", glances)
			}
			var leaf string
			for name, c := range w.hosts[0].nat.written {
				if strings.Count(c.rules, "\n") > 1 && strings.HasPrefix(name, "PORTALD-SVC") {
					leaf = name
				}
			}
			for _, change := range []string{"-t nat -F " + leaf, "-t nat -D " + leaf + " 1"} {
				others(t, variant, change)
				if err := w.Audit(t.Context()); err == nil {
					t.Errorf("%s is not found", change)
				} else {
					t.Log(err)
				}
				replace()
			}
			others(t, variant, "-t nat -N OTHERS")
			if err := w.Audit(t.Context()); err != nil || w.Disturbed() {
				t.Errorf("a chain of others: %v, disturbed %t", err, w.Disturbed())
			}
		})
	})
}

// Who changes chains of ours, or leads there, is seen. Others are not, although their chains have similar names.
func TestSeesWhoChangesOurs(t *testing.T) {
	netnstest.Enter(t)
	o := testOptions(nil, "nft")
	o.Prefix = "KUBE"
	w := newWriter(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.Listen(ctx) }()
	w.Watch(time.Minute)
	if err := w.Replace(t.Context(), spreads(2, 2)); err != nil {
		t.Fatal(err)
	}
	for _, change := range []string{"-t filter -N KUBE-FIREWALL", "-t filter -A KUBE-FIREWALL -j DROP",
		"-t filter -A OUTPUT -j KUBE-FIREWALL", "-t nat -N OTHERS"} {
		others(t, "nft", change)
	}
	others(t, "nft", "-t nat -D PREROUTING -j KUBE-SERVICES")
	for end := time.Now().Add(10 * time.Second); len(w.Culprits()) == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	seen := w.Culprits()
	if len(seen) != 1 || !strings.HasPrefix(seen[0].Process, "iptables-nft") && seen[0].Process != "xtables-nft-mul" ||
		seen[0].Times != 1 {
		t.Errorf("seen: %+v", seen)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
