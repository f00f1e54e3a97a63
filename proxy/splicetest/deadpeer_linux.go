package splicetest

import (
	"net"
	"net/netip"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func deadPeerScenarios() []scenario {
	return []scenario{
		{name: "DeadEndpoint", run: deadEndpoint, needs: DeadPeers, scope: network},
		{name: "DeadClient", run: deadClient, needs: DeadPeers, scope: network},
		{name: "SlowPeerLives", run: slowPeerLives, needs: DeadPeers},
	}
}

// deadAfter is the shortest that keepalive can do.
const deadAfter = 3 * time.Second

// deadWithin is deadAfter with what a look and a busy machine may take.
const deadWithin = 2 * deadAfter

// deadEndpoint: the host of an endpoint falls silent. The connection of a client that has asked ends, and so does that
// of one that is idle.
func deadEndpoint(t *trial) {
	c := newCluster(t)
	d, port := c.underDeadPeer()
	for range 2 {
		c.established(port)
	}
	asks := c.established(port)
	c.drop(c.pod, "drop")
	gone := time.Now()
	asks.Write([]byte("?"))
	for range 3 {
		rec := d.record()
		if rec.Outcome != record.OutcomeEndpointLost || rec.ClosedBy != record.Endpoint || rec.Error == "" ||
			time.Since(gone) > deadWithin {
			t.Errorf("after %s, record %+v", time.Since(gone), rec)
		}
	}
}

// deadClient is the same of a client, for which an answer waits.
func deadClient(t *trial) {
	c := newCluster(t)
	d, port := c.underDeadPeer()
	c.established(port)
	c.drop(c.client, "drop")
	gone := time.Now()
	rec := d.record()
	if rec.Outcome != record.OutcomeClientLost || rec.ClosedBy != record.Client || time.Since(gone) > deadWithin {
		t.Errorf("after %s, record %+v", time.Since(gone), rec)
	}
}

// underDeadPeer runs a data path to a server in the pod.
func (c *cluster) underDeadPeer() (*dataPath, uint16) {
	c.Helper()
	at := c.podEcho(inet.IPv4)
	d := c.start(splice.Options{Policy: service.Policy{DeadPeer: deadAfter}})
	return d, expose(d, service.Port{}, inet.TCP, inet.IPv4, toOne(at))
}

// established is a connection of the client that has carried a byte each way.
func (c *cluster) established(port uint16) (conn net.Conn) {
	c.Helper()
	c.client.Must(func() (err error) {
		conn, err = echoed(netip.AddrPortFrom(towardClient[inet.IPv4], port))
		return err
	})
	c.Cleanup(func() { conn.Close() })
	return conn
}

// slowPeerLives: an endpoint that answers and does not read is not dead. TCP_USER_TIMEOUT would end its connection.
func slowPeerLives(t *trial) {
	d := t.start(splice.Options{Policy: service.Policy{DeadPeer: time.Second}})
	c := dialTCP(t, d.tcp(idleServer(t)).at)
	fill(c)
	d.noRecord(3 * time.Second)
}
