package daemon

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/explain"
)

// What changes after the start is told in order, to those who ask and in the log, and to those who follow.
func TestChanges(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1)
	d := b.Start(b.Cart(0, 1))
	told := func(args ...string) []string {
		line := b.Line(append([]string{"changes", "--socket", d.Socket}, args...)...)
		text := b.On(b.Node, line[0], line[1:]...)
		if text == "" {
			return nil
		}
		return strings.Split(strings.TrimSpace(text), "\n")
	}
	started := fmt.Sprintf(" (process %d) started", d.Cmd.Process.Pid)
	if all := told(); len(all) != 1 || !strings.HasSuffix(all[0], started) {
		t.Errorf("what was there at the start has changed: %q", all)
	}
	d.Apply(b.Cart(0))
	zebra := b.Simple("zebra", "10.96.0.77", 1)
	d.Apply(b.Cart(0).String() + zebra.String())
	zebra.Mode = "kernel"
	d.Apply(b.Cart(0).String() + zebra.String())
	zebra.Annotations = []string{"portald.io/retries: '3'"}
	d.Apply(b.Cart(0).String() + zebra.String())
	want := []string{
		"shop/cart:http: endpoint 10.244.0.3:8080 (pod shop/pod1) removed, was ready",
		"shop/zebra:http: added, with 2 endpoints",
		"shop/zebra:http: carried by the default, now by kernel",
		"shop/zebra: portald.io/mode: kernel, was none",
		"shop/zebra: portald.io/retries: 3, was none",
	}
	all := told("--since", "1m")
	for _, text := range want {
		if !slices.ContainsFunc(all, func(line string) bool { return strings.HasSuffix(line, text) }) {
			t.Errorf("%q is not told in\n%s", text, strings.Join(all, "\n"))
		}
		b.Eventually("a line in the log: "+text, func() bool { return strings.Contains(d.Log.String(), "Change: "+text) })
	}
	var last changes.Line
	b.Must(json.Unmarshal([]byte(told("shop/zebra", "--last", "1", "-o", "json")[0]), &last))
	if last.Kind != changes.ServiceChanged || last.Service != "shop/zebra" || last.What != "portald.io/retries" ||
		last.New != "3" {
		t.Errorf("%+v", last)
	}
	report, err := d.Admin().Explain(b.Context(), "shop/zebra", "")
	b.Must(err)
	if !slices.ContainsFunc(report.Sections, func(s explain.Section) bool { return s.Title == "Last changes" }) {
		t.Errorf("not explained: %+v", report.Sections)
	}
}

// What the daemon itself does is told too: endpoints that it leaves out since they fail, connections that are cut, the
// level of the log.
func TestChangesOfTheDaemon(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	d := b.Start(b.Cart(0, 1), "--iptables-sync-period=1s") // nothing listens in the second
	told := func(text string) {
		t.Helper()
		b.Eventually("a change: "+text, func() bool {
			line := b.Line("changes", "--socket", d.Socket, "--since", "5m")
			return strings.Contains(b.On(b.Node, line[0], line[1:]...), text)
		})
	}
	at := bed.HostPort(bed.IP4, 80)
	const of = "shop/cart:http: endpoint 10.244.0.3:8080 (pod shop/pod1) "
	for range 8 {
		if _, err := bed.Ask(b.Client, "tcp", at); err != nil {
			t.Fatal(err)
		}
	}
	told(of + "ejected, since it failed connections (refused: ")
	line := b.Line("endpoints", "shop/cart:http", "--state", "ejected", "--no-headers", "--socket", d.Socket)
	if text := b.On(b.Node, line[0], line[1:]...); !regexp.MustCompile(` ejected +\d+s ago `).MatchString(text) {
		t.Errorf("since when is it ejected? %s", text)
	}
	b.ServePods(1)
	b.Eventually("its return", func() bool {
		a, err := bed.Ask(b.Client, "tcp", at)
		return err == nil && a.Pod == "pod1"
	})
	told(of + "is no longer ejected")
	rows, err := d.Admin().Endpoints(b.Context(), adminsocket.EndpointQuery{})
	b.Must(err)
	for _, row := range rows {
		ejected := row.Service == "shop/cart:http" && row.Address.String() == "10.244.0.3:8080"
		if known := row.Since != nil; known != ejected {
			t.Errorf("%s is %s since %v", row.Pod, row.State, row.Since)
		}
	}
	b.Eventually("a line in the log", func() bool { return strings.Contains(d.Log.String(), "Change: "+of+"ejected") })

	_, _, mine := b.Open(at) // portald has it, since the pod has answered
	open, err := d.Admin().Connections(b.Context(), adminsocket.ConnectionQuery{})
	b.Must(err)
	is := slices.IndexFunc(open, func(c adminsocket.Connection) bool { return c.Client == mine.Client })
	if is < 0 {
		t.Fatalf("%s is not listed: %+v", mine.Client, open)
	}
	_, err = d.Admin().Cut(b.Context(), open[is].ID)
	b.Must(err)
	told("connections or UDP sessions cut by portald cut: 1")
	b.Must(d.Admin().SetLogLevel(b.Context(), "trace"))
	told("level of the log of portald: trace, was debug")
	b.On(b.Node, "iptables", "-t", "nat", "-F")
	told("everything was applied again: others had changed the host's rules")
}
