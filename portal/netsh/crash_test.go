package netsh

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/portal"
)

// Addresses that a killed run left are taken over where they are still wanted, and removed where not.
func TestCrash(t *testing.T) {
	inTime(t, func(r *rig) {
		kept, gone := clusterIP("10.96.0.10:80 shop/cart"), clusterIP("[fd00::11]:80 shop/old")
		r.replace(kept, gone)
		r.host.Add(deviceIndex, netip.MustParsePrefix("10.96.0.99/32")) // by somebody else
		r.restart()
		before := r.calls()
		r.replace(kept, clusterIP("10.96.0.12:80 shop/new"), clusterIP("10.96.0.99:80 shop/other"))
		r.wantAdded("10.96.0.10/32", "10.96.0.12/32", "10.96.0.99/32")
		r.wantServed("10.96.0.10:80/tcp shop/cart", "10.96.0.12:80/tcp shop/new", "10.96.0.99:80/tcp shop/other")
		if n := r.calls() - before; n != 2 {
			t.Errorf("%d processes of netsh, want one to add and one to remove", n)
		}
		r.replace()
		r.wantAdded("10.96.0.99/32")
	})
}

// A run that is killed while netsh adds addresses leaves none that the next one does not know.
func TestCrashWhileAdding(t *testing.T) {
	inTime(t, func(r *rig) {
		r.sim.Faults.HangAfter = 5
		var portals []portal.Portal
		for i := range 20 {
			portals = append(portals, clusterIP(fmt.Sprintf("10.96.0.%d:80 shop/s%d", i+1, i)))
		}
		if r.Replace(r.Context(), portals) == nil {
			t.Fatal("no error")
		}
		if n := len(r.added()); n != 5 {
			t.Fatalf("%d addresses", n)
		}
		r.sim.Faults.HangAfter = 0
		r.restart()
		r.replace(portals[0])
		r.wantAdded("10.96.0.1/32")
	})
}

// Addresses that an earlier run added, and that the host now has otherwise, are not ours any more.
func TestCrashAndReboot(t *testing.T) {
	inTime(t, func(r *rig) {
		added := []string{"10.96.0.10", "10.96.0.11", "10.96.0.12"}
		var portals []portal.Portal
		for _, a := range added {
			portals = append(portals, clusterIP(a+":80 shop/cart"))
		}
		r.replace(portals...)
		for _, a := range added {
			r.takeAway(deviceIndex, a)
		}
		r.host.Add(nodeIndex, netip.MustParsePrefix("10.96.0.10/24"))
		r.host.Add(nodeIndex, netip.MustParsePrefix("10.96.0.11/32"))
		r.host.Add(deviceIndex, netip.MustParsePrefix("10.96.0.12/24"))
		before, _ := r.host.Interfaces()
		file := filepath.Join(r.dir, "addresses.json")
		saved, err := readState(file)
		if err != nil || len(saved.Addresses) != 3 {
			t.Fatalf("%+v, %v", saved, err)
		}
		if err := Remove(r.Context(), r.Options); err != nil {
			t.Error(err)
		}
		if err := errors.Join(os.Mkdir(r.dir, 0o700), saved.write(file)); err != nil {
			t.Fatal(err)
		}
		r.restart()
		r.replace()
		if after, _ := r.host.Interfaces(); fmt.Sprint(after) != fmt.Sprint(before) || r.calls() != 3 {
			t.Errorf("addresses %v, were %v; netsh %q", after, before, r.sim.Calls())
		}
	})
}

// Cleanup removes what this run added; Remove what an earlier one did, without listeners; both nothing else.
func TestCleanup(t *testing.T) {
	inTime(t, func(r *rig) {
		portals := []portal.Portal{clusterIP("10.96.0.10:80 shop/cart"), clusterIP("[fd00::10]:80 shop/cart"),
			nodePort("0.0.0.0:30080 shop/cart"), clusterIP("10.96.0.11:80 shop/till"), clusterIP("10.96.0.12:80 shop/a"),
			clusterIP("10.96.0.13:80 shop/b")}
		r.host.Add(deviceIndex, netip.MustParsePrefix("10.96.0.99/32"))
		for what, clean := range map[string]func() error{
			"Cleanup": func() error { return r.Cleanup(r.Context()) },
			"Remove": func() error {
				o := r.Options
				o.Listeners = nil
				return Remove(r.Context(), o)
			},
		} {
			r.replace(portals...)
			if err := clean(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			r.wantAdded("10.96.0.99/32")
			if _, err := os.Stat(r.dir); !os.IsNotExist(err) {
				t.Errorf("%s leaves %s: %v", what, r.dir, err)
			}
			if err := clean(); err != nil {
				t.Errorf("%s where nothing is left: %v", what, err)
			}
			r.restart()
		}
		r.replace(portals...)
		r.Cleanup(r.Context())
		r.wantServed()
		if r.Update(r.Context(), nil) == nil {
			t.Error("an Update after a Cleanup")
		}
		r.replace(portals[0])
		r.wantServed("10.96.0.10:80/tcp shop/cart")
	})
}

// A Cleanup that fails says so, and a later one ends it.
func TestCleanupFails(t *testing.T) {
	inTime(t, func(r *rig) {
		r.replace(clusterIP("10.96.0.10:80 shop/cart"))
		r.sim.Faults.NotElevated = true
		if err := r.Cleanup(r.Context()); err == nil || !strings.Contains(err.Error(), "10.96.0.10") {
			t.Errorf("error %v, want one that names the address", err)
		}
		r.sim.Faults.NotElevated = false
		if err := Remove(r.Context(), r.Options); err != nil {
			t.Error(err)
		}
		r.wantAdded()
	})
}

// Addresses on the interface of an earlier run are removed there.
func TestOtherInterface(t *testing.T) {
	inTime(t, func(r *rig) {
		r.replace(clusterIP("10.96.0.10:80 shop/cart"), clusterIP("10.96.0.11:80 shop/till"))
		r.restart(func(o *Options) { o.Interface = "Ethernet" })
		r.replace(clusterIP("10.96.0.10:80 shop/cart"))
		r.wantAdded()
		r.wantServed("10.96.0.10:80/tcp shop/cart")

		// Without that interface there is nothing left to remove.
		r.restart()
		r.replace(clusterIP("10.96.0.10:80 shop/cart"))
		r.wantAdded("10.96.0.10/32")
		r.host.Unplug(deviceIndex)
		if err := r.Cleanup(r.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The interface goes while the daemon runs, and comes back without addresses.
func TestInterfaceThatGoes(t *testing.T) {
	inTime(t, func(r *rig) {
		r.replace(clusterIP("10.96.0.10:80 shop/cart"))
		r.host.Unplug(deviceIndex)
		time.Sleep(follow)
		if _, err := r.Sweep(r.Context()); err == nil || !strings.Contains(err.Error(), `"Ethernet"`) {
			t.Errorf("error %v, want one that names the interfaces there are", err)
		}
		r.host.Plug(DefaultInterface, 9)
		r.replace(clusterIP("10.96.0.10:80 shop/cart"))
		r.wantServed("10.96.0.10:80/tcp shop/cart")
	})
}

// A state file that is no longer one, or that cannot be written.
func TestBrokenState(t *testing.T) {
	inTime(t, func(r *rig) {
		r.replace(clusterIP("10.96.0.10:80 shop/cart"))
		file := filepath.Join(r.dir, "addresses.json")
		for _, text := range []string{"", "{", `{"addresses":["x"]}`} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			os.WriteFile(filepath.Join(r.dir, "script-1.txt"), nil, 0o600) // of a killed run
			r.restart()
			r.logged = nil
			r.replace(clusterIP("10.96.0.10:80 shop/cart"), clusterIP("10.96.0.11:80 shop/till"))
			r.wantServed("10.96.0.10:80/tcp shop/cart", "10.96.0.11:80/tcp shop/till")
			if len(r.logged) != 1 || !strings.Contains(r.logged[0], file) {
				t.Errorf("%q is logged as %q", text, r.logged)
			}
			if files, _ := os.ReadDir(r.dir); len(files) != 1 {
				t.Errorf("files: %v", files)
			}
			r.replace(clusterIP("10.96.0.10:80 shop/cart"))
		}
		r.wantAdded("10.96.0.10/32")

		before := r.calls()
		if err := os.RemoveAll(r.dir); err != nil {
			t.Fatal(err)
		}
		err := r.Update(r.Context(), []portal.Change{change(clusterIP("10.96.0.12:80 shop/new"))})
		if err == nil || r.calls() != before {
			t.Errorf("error %v, %d processes of netsh without a state file", err, r.calls()-before)
		}
		r.wantServed("10.96.0.10:80/tcp shop/cart")
	})
}

// Whenever a run is killed, the state file has every address of the device that is ours.
func TestStateIsWrittenAhead(t *testing.T) {
	inTime(t, func(r *rig) {
		run := r.Writer.Run
		r.Writer.Run = func(ctx context.Context, args ...string) (Result, error) {
			saved, err := readState(filepath.Join(r.dir, "addresses.json"))
			if err != nil {
				t.Error(err)
			}
			result, err := run(ctx, args...)
			for _, a := range r.added() {
				if !slices.Contains(saved.Addresses, netip.MustParsePrefix(a).Addr()) {
					t.Errorf("%s is not in the state file", a)
				}
			}
			return result, err
		}
		for i := range 30 {
			var portals []portal.Portal
			for k := range (i * 7) % 13 {
				portals = append(portals, clusterIP(fmt.Sprintf("10.96.%d.%d:80 shop/s%d", i%3, k+1, k)))
			}
			r.replace(portals...)
		}
	})
}

func change(p portal.Portal) portal.Change { return portal.Change{Frontend: p.Frontend, Portal: &p} }
