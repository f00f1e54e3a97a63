package netsh

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/netshtest"
)

// On every node that was captured, portals are held, found again after a crash, and removed.
func TestCapturedNodes(t *testing.T) {
	files, err := filepath.Glob("../netshtest/testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		inTime(t, func(r *rig) {
			c, err := netshtest.ReadCapture(text)
			if err != nil {
				r.Fatal(err)
			}
			r.sim = netshtest.NewFromCapture(c)
			r.host, r.open = r.sim.Host.(*netshtest.Memory), nil
			device := func(o *Options) { o.Interface = c.Interfaces[len(c.Interfaces)-1].Name }
			r.restart(device)
			var portals []portal.Portal
			for i := range 300 {
				portals = append(portals, clusterIP(fmt.Sprintf("198.18.%d.%d:80 shop/s%d", i/200, i%200+1, i)))
			}
			r.replace(portals[:250]...)
			r.restart(device)
			r.replace(portals[100:]...)
			r.update(nil, portals[299])
			r.wantFailing()
			if n := len(r.served()); n != 199 {
				r.Errorf("%s: %d are served, want 199", file, n)
			}
			if err := r.Cleanup(r.Context()); err != nil {
				r.Errorf("%s: %v", file, err)
			}
			if got, _ := r.host.Interfaces(); fmt.Sprint(got) != fmt.Sprint(c.Interfaces) {
				r.Errorf("%s: the host has %v, want %v", file, got, c.Interfaces)
			}
		})
	}
}
