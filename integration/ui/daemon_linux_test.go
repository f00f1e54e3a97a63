package ui

import (
	"testing"

	"github.com/portald/portald/integration/bed"
)

// The daemon serves the page itself: all views but what is for root, without a token, also at the name localhost.
func TestPageOfDaemon(t *testing.T) {
	s := newSite(t)
	s.daemon = s.Start(manifests(s.Bed), "--kernel-records=all", "--read-only-api", "--ui")
	for _, origin := range []string{"http://127.0.0.1:10249", "http://localhost:10249"} {
		w := newBrowser(s.Bed, origin)
		w.Screen(1280, false)
		w.Visit(origin + "/ui/")
		w.Has("tr", "shop/cart:http")
		s.clients(40, bed.IP4)
		s.services(w)
		s.service(w)
		w.Open("#/service/shop%2Fcart%3Ahttp/tcp")
		w.Has(".links code", "portald explain shop/cart:http")
		s.failures(w)
		w.Open("#/connections")
		w.Has("section", "connection")
		w.Open("#/nodes")
		w.Has("td", "✓ answers")
		w.Shoot("daemon-nodes")
		if elsewhere, errors := w.Complaints(); len(elsewhere) > 0 || len(errors) > 0 {
			t.Errorf("requests to others %v, errors %v", elsewhere, errors)
		}
	}
}
