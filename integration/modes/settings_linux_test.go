package modes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/portal/service"
)

// allSettings sets all that a Service may ask for of its endpoints and clients, but for the algorithm.
func allSettings() []string {
	return annotations("eject-after: 2", "eject-on: connect,closed-early", "retry-budget: 50", "slow-start: 1s",
		"hedge-after: 100ms", "retry-on: reset-before-response", "wait-for-endpoint: 10s", "wake: deployment/cart=1",
		"removed-endpoint: close-when-idle", "dead-peer-timeout: 30s", "max-age: 1h±20%", "max-connections-per-client: 100",
		"connection-rate: 100000", "connection-rate-per-client: 10000", "max-waiting: 500", "algorithm: random",
		"keep-payload: badly-ended")
}

// unknownValues are those of the same annotations that a tenant may have misspelt.
func unknownValues() []string {
	return annotations("eject-after: often", "eject-on: never", "retry-budget: '-1'", "slow-start: soon", "hedge-after: x",
		"retry-on: always", "wait-for-endpoint: '5'", "wake: cart", "removed-endpoint: drop", "dead-peer-timeout: never",
		"max-age: 1ms", "max-connections-per-client: many", "connection-rate: 1/s", "connection-rate-per-client: '-2'",
		"max-waiting: all", "algorithm: maglev", "keep-payload: all")
}

func annotations(all ...string) (out []string) {
	for _, a := range all {
		name, value, _ := strings.Cut(a, ": ")
		if !strings.HasPrefix(value, "'") {
			value = "'" + value + "'"
		}
		out = append(out, "portald.io/"+name+": "+value)
	}
	return out
}

// The lists name each setting that the issue of retries has brought.
func TestSettingsAreAllSet(t *testing.T) {
	isOther := func(s service.Setting) bool {
		switch s.Name {
		case "mode", service.DebugUntil, "connect-timeouts", "retries", "half-close-timeout", "idle-timeout", "udp-timeout",
			"max-connections", "client-address", "connection-log", "connection-log-sample", "kernel-records":
			return true
		}
		return false
	}
	for _, s := range service.Settings() {
		for valid, list := range map[bool][]string{true: allSettings(), false: unknownValues()} {
			var value string
			for _, a := range list {
				if name, v, _ := strings.Cut(a, ": "); name == "portald.io/"+s.Name {
					value = strings.Trim(v, "'")
				}
			}
			if isOther(s) {
				continue
			}
			if value == "" || s.Value.Read(value, &service.Port{}) != valid {
				t.Errorf("%s is set to %q, which is to be valid: %t", s.Name, value, valid)
			}
		}
	}
}

// A Service with every setting is served in each mode, and by the other carrier, to which it changes and back while a
// connection is open. Settings beyond the kernel's means have no effect there. One whose values are all unknown is
// served as if it had none, its problems are told, and another Service is served all the while.
func TestEverySetting(t *testing.T) { bed.EachMode(t, everySetting) }

func everySetting(b *bed.Bed, m bed.Mode) {
	b.ServePods(0, 1)
	cart, other := b.Cart(0, 1), b.Cart(0)
	other.Name, other.IPs = "other", []string{"10.96.0.11"}
	other.Ports = []bed.Port{bed.NewPort("http", "TCP", 80, 0, bed.PodPort)}
	cart.Annotations = allSettings()
	d := b.Start(cart.String()+other.String(), m.Args...)
	served := func(when string) {
		b.Helper()
		for _, to := range []string{bed.HostPort(bed.IP4, 80), bed.HostPort(bed.IP6, 80),
			bed.HostPort(b.Node.IPv4.String(), bed.NodePort), bed.HostPort("10.96.0.11", 80)} {
			for range 3 {
				if _, err := bed.Ask(b.Client, "tcp", to); err != nil {
					b.Errorf("%s, %s: %v", when, to, err)
				}
			}
		}
		if _, err := bed.Ask(b.Client, "udp", bed.HostPort(bed.IP4, 80)); err != nil {
			b.Errorf("%s, by UDP: %v", when, err)
		}
	}
	served("in mode " + m.Name)
	open := converse(b, bed.HostPort(bed.IP4, 80))
	for _, mode := range []string{"kernel", "userspace", "kernel", "userspace", ""} {
		cart.Mode = mode
		d.Apply(cart.String() + other.String())
		served(fmt.Sprintf("in mode %q", mode))
		open.goesOn(b)
	}
	if log := d.Log.String(); strings.Contains(log, "the daemon's setting is used") {
		b.Errorf("a setting is a problem:\n%s", log)
	} else if !strings.Contains(log, "portald.io/max-age]: ") ||
		!strings.Contains(log, "has no effect where the kernel carries the Service") {
		b.Errorf("what the kernel does not do is no problem:\n%s", log)
	}
	for _, mode := range []string{"userspace", "kernel"} {
		cart.Mode, cart.Annotations = mode, unknownValues()
		d.Apply(cart.String() + other.String())
		served("with unknown values in mode " + mode)
		open.goesOn(b)
	}
	for _, a := range unknownValues() {
		name, _, _ := strings.Cut(a, ": ")
		if !bed.Within(bed.Patience, func() bool { return strings.Contains(d.Log.String(), name) }) {
			b.Errorf("the log says nothing of %s", name)
		}
	}
	if code := d.Stop(); code != 0 {
		b.Errorf("portald ended with code %d", code)
	}
}
