package chaos

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/cluster"
	"github.com/portald/portald/platform/netnstest"
)

// The same on three nodes of a cluster, each in another mode, whose portalds have their objects from an API server and
// serve the Services of all. It, its storage and the links to it are away now and then: nobody notices that.
func TestChaosOfACluster(t *testing.T) {
	if netnstest.Elsewhere("api") {
		t.Skip("make test-api and make chaos run it")
	}
	schedule(t)
	modes := bed.Modes()[1:]
	b := apibed.New(t, len(modes), 3)
	c := &control{Cluster: b.API}
	for i, s := range b.Sites {
		from := &objects{
			space: b.API.Namespace(t, s.Name), node: s.Name, kubeconfig: b.API.Kubeconfig(cluster.Proxy),
			has: map[bed.Object]bool{}, control: c,
		}
		c.worlds = append(c.worlds, newWorld(s.Bed, modes[i], placesOf(i), s.Name, from))
	}
	c.worlds.suffer(b.Context(), c.faults())
}

// control is what the portalds of several nodes have their objects from.
type control struct {
	*cluster.Cluster
	worlds worlds
	away   sync.RWMutex // held while a part of it is: what is written then would lose allocations of addresses
	back   atomic.Int64 // when that, or a link, was last over, in ns since 1970
}

func (c *control) isBack() { c.back.Store(time.Now().UnixNano()) }

// mostAway is how long a part of the control plane is away at most, but for the time that it takes to start.
const mostAway = 3 * time.Second

func (c *control) faults() []fault {
	kill := [2]tell{(*cluster.Cluster).Kill, (*cluster.Cluster).Start}
	pause := [2]tell{(*cluster.Cluster).Pause, (*cluster.Cluster).Continue}
	return []fault{
		{"the API server is killed", c.outage(cluster.APIServer, kill)},
		{"the API server stands still", c.outage(cluster.APIServer, pause)},
		{"etcd is killed", c.outage(cluster.Etcd, kill)},
		{"etcd stands still", c.outage(cluster.Etcd, pause)},
		{"the link to the API server is down", c.cut},
		{"the control plane is well", rest}, {"the control plane is well", rest}, {"the control plane is well", rest},
	}
}

// tell has a program of the control plane do something.
type tell func(*cluster.Cluster, cluster.Program) error

func (c *control) outage(p cluster.Program, beginAndEnd [2]tell) func(*rand.Rand, *event) {
	return func(dice *rand.Rand, _ *event) {
		c.away.Lock()
		defer c.away.Unlock()
		defer c.isBack()
		w := c.worlds[0]
		w.try("begin the outage", beginAndEnd[0](c.Cluster, p))
		time.Sleep(time.Duration(dice.Int64N(int64(mostAway))))
		w.try("end the outage", beginAndEnd[1](c.Cluster, p))
		w.await("the API server to answer", func() bool {
			ctx, cancel := context.WithTimeout(context.Background(), callTime)
			defer cancel()
			_, err := c.Admin.CoreV1().Namespaces().Get(ctx, w.node, metav1.GetOptions{})
			return err == nil
		})
	}
}

// cut takes the link of one node to the API server away: it does not see what changes meanwhile.
func (c *control) cut(dice *rand.Rand, _ *event) {
	w := c.worlds[dice.IntN(len(c.worlds))]
	plug, err := w.Node.Unplug("control")
	if w.try("take the link down", err); err != nil {
		return
	}
	time.Sleep(time.Duration(dice.Int64N(int64(mostAway))))
	w.try("bring the link up", plug())
	c.isBack()
}

func rest(dice *rand.Rand, _ *event) { time.Sleep(time.Duration(dice.Int64N(int64(3 * mostAway)))) }
