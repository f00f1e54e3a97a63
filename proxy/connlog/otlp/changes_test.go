package otlp

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus/hooks/test"
	logs "go.opentelemetry.io/proto/slim/otlp/logs/v1"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/changes"
)

func cart(kind changes.Kind) changes.Change {
	return changes.Change{
		Time: time.Unix(1000, 5e6), Kind: kind, Pod: "shop/cart-a", Endpoint: netip.MustParseAddrPort("10.1.0.3:80"),
		Service: service.PortName{Namespace: "shop", Name: "cart", Port: "http", Protocol: inet.TCP}, Old: "ready",
	}
}

// Changes are exported beside records, as the line that portald changes prints: those since the exporter was made, and
// those of the end too.
func TestChanges(t *testing.T) {
	r := &receiver{}
	server := httptest.NewServer(r)
	defer server.Close()
	history := changes.NewLog(10)
	history.Add(changes.Change{Kind: changes.Resynced, What: "inherited"})
	e, told, stop := exporting(t, Options{Endpoint: server.URL, Changes: history})
	defer stop()
	history.Add(cart(changes.EndpointRemoved))
	e.Put(report(1))
	eventually(t, "both", func() bool { return len(r.records()) == 2 })
	history.Add(changes.Change{Kind: changes.DaemonEnding, What: "told\x1b to end"})
	stop()
	got := r.records()
	if len(got) != 3 || e.ChangesDropped() != 0 || len(told.AllEntries()) != 0 {
		t.Fatalf("%v, %d dropped, told %v", got, e.ChangesDropped(), told.AllEntries())
	}
	at := func(name string) int {
		for i, one := range got {
			if one.EventName == name {
				return i
			}
		}
		t.Fatalf("there is no %s: %v", name, got)
		return 0
	}
	removed := got[at("portald.change.endpoint_removed")]
	if removed.Body.GetStringValue() !=
		"1970-01-01 00:16:40.005 shop/cart:http: endpoint 10.1.0.3:80 (pod shop/cart-a) removed, was ready" ||
		removed.SeverityNumber != logs.SeverityNumber_SEVERITY_NUMBER_INFO ||
		removed.TimeUnixNano != uint64(time.Unix(1000, 5e6).UnixNano()) {
		t.Errorf("%v", removed)
	}
	want := "kind=endpoint_removed service=shop/cart:http protocol=tcp endpoint=10.1.0.3:80 pod=shop/cart-a old=ready " +
		"k8s.namespace.name=shop k8s.service.name=cart k8s.pod.name=cart-a network.transport=tcp"
	if text := attributesText(removed); text != want {
		t.Errorf("attributes\n%s, want\n%s", text, want)
	}
	end := got[at("portald.change.daemon_ending")]
	if text := attributesText(end); text != "kind=daemon_ending what=told\x1b to end" ||
		!strings.HasSuffix(end.Body.GetStringValue(), ` told\x1b to end`) || r.resource["k8s.node.name"] != "node-1" {
		t.Errorf("%q, body %q, of %v", text, end.Body.GetStringValue(), r.resource)
	}
}

func attributesText(of *logs.LogRecord) string {
	var out []string
	for _, a := range of.Attributes {
		out = append(out, a.Key+"="+a.Value.GetStringValue())
	}
	return strings.Join(out, " ")
}

// Those are warnings that somebody has to look at.
func TestSeverityOfChanges(t *testing.T) {
	warnings := map[changes.Kind]bool{
		changes.ServiceRefused: true, changes.EndpointEjected: true, changes.RulesChanged: true, changes.APIServerAway: true,
	}
	for _, kind := range changes.Kinds() {
		c := cart(kind)
		want := logs.SeverityNumber_SEVERITY_NUMBER_INFO
		if warnings[kind] {
			want = logs.SeverityNumber_SEVERITY_NUMBER_WARN
		}
		if got := change(&c); got.SeverityNumber != want || "SEVERITY_NUMBER_"+got.SeverityText != want.String() {
			t.Errorf("%s has %v, %s", kind, got.SeverityNumber, got.SeverityText)
		}
	}
}

// Changes that come faster than they are kept, or sent, are counted and told.
func TestLostChanges(t *testing.T) {
	r := &receiver{}
	server := httptest.NewServer(r)
	defer server.Close()
	const kept, buffer, all = 40, 30, 100
	history := changes.NewLog(kept)
	log, told := test.NewNullLogger()
	e, err := New(Options{Endpoint: server.URL, Changes: history, Buffer: buffer, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		c := cart(changes.EndpointRemoved)
		c.Service.Name = fmt.Sprint("cart-", i) // the history keeps only some of one Service
		history.Add(c)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Run(ctx); err != nil {
		t.Error(err)
	}
	if got, lost := len(r.records()), e.ChangesDropped(); got != buffer || lost != all-buffer {
		t.Errorf("%d exported and %d dropped, of %d", got, lost, all)
	}
	text := "The collector did not get 0 connection records and 70 changes"
	if last := told.LastEntry(); last == nil || last.Message != text {
		t.Errorf("told %v, want %q", told.AllEntries(), text)
	}
}

// A collector that takes everything, but too late, is told of too.
func TestSlowCollector(t *testing.T) {
	r := &receiver{}
	server := httptest.NewServer(r)
	defer server.Close()
	e, told, stop := exporting(t, Options{Endpoint: server.URL, Buffer: 10})
	defer stop()
	r.mu.Lock() // it answers nothing meanwhile
	for range 100 {
		e.Put(report(1))
	}
	r.mu.Unlock()
	lost := e.Dropped()
	eventually(t, "a word of the loss", func() bool { return len(told.AllEntries()) >= 1 })
	e.Put(report(2))
	eventually(t, "the number", func() bool { return len(told.AllEntries()) == 2 })
	stop()
	if text := told.AllEntries()[0].Message; !strings.Contains(text, "The collector falls behind") {
		t.Errorf("told %q", text)
	}
	text := fmt.Sprintf("The collector did not get %d connection records and 0 changes", lost)
	if got := told.LastEntry().Message; got != text || lost < 80 || e.Dropped() != lost {
		t.Errorf("told %q, want %q", got, text)
	}
}
