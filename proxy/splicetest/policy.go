package splicetest

import (
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/splice"
)

func policyScenarios() []scenario {
	return []scenario{
		{name: "NewDefaultsForNewConnections", run: newDefaultsForNewConnections},
		{name: "ServicePolicyGoesFirst", run: servicePolicyGoesFirst},
	}
}

var shortIdle = service.Policy{Idle: 80 * time.Millisecond}

// longIdle is how long a connection without an idle timeout is watched.
const longIdle = 400 * time.Millisecond

// newDefaultsForNewConnections: the daemon's defaults may change; open connections keep what they began with.
func newDefaultsForNewConnections(t *trial) {
	d := t.start(splice.Options{})
	f := d.tcp(echoServer(t))
	open := dialTCP(t, f.at)
	exchange(t, open)
	d.SetPolicy(shortIdle)
	if !endsIdle(dialTCP(t, f.at), longest) {
		t.Error("a new connection does not have the new default")
	}
	if endsIdle(open, longIdle) {
		t.Error("an open connection changed its policy")
	}
}

// servicePolicyGoesFirst: a service port's own policy goes before the daemon's.
func servicePolicyGoesFirst(t *trial) {
	d := t.start(splice.Options{Policy: shortIdle})
	f := d.tcp(echoServer(t))
	f.under(service.Policy{Idle: service.Never})
	if endsIdle(dialTCP(t, f.at), longIdle) {
		t.Error("the default went before the service port's own policy")
	}
	d.SetPolicy(service.Policy{})
	f.under(shortIdle)
	if !endsIdle(dialTCP(t, f.at), longest) {
		t.Error("the default went before the service port's own policy")
	}
	f.under(service.Policy{})
	if endsIdle(dialTCP(t, f.at), longIdle) {
		t.Error("the default of a default is an idle timeout")
	}
}
