package api

import (
	"bufio"
	"fmt"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/cluster"
	"github.com/portald/portald/integration/topology"
)

// Number of Pods before and after a rolling update, and their port.
const (
	replicas    = 4
	firstOld    = 1
	firstNew    = firstOld + replicas
	rolloutPort = 9002
)

// replica is a Pod and its server.
type replica struct {
	number int
	name   string
	at     *topology.Host
	server *bed.Server
}

// idleConn is a connection that stays open.
type idleConn struct {
	conn   *net.TCPConn
	reader *bufio.Reader
}

// rollout replaces all Pods of a Service one by one, as a Deployment does, while clients connect as fast as they can.
// For each Pod: the new one becomes ready, the old one terminates, accepts no new connections, and is deleted when its
// open connections have ended.
func rollout(b *apibed.Bed) {
	s, n := b.Sites[0], b.API.Namespace(b, "rollout")
	port := corev1.ServicePort{Port: 80, TargetPort: intstr.FromInt32(rolloutPort)}
	to := apibed.On80(n.Service("web", corev1.ServiceSpec{Ports: []corev1.ServicePort{port}}).Spec.ClusterIP)
	var old []*replica
	var names []string
	for i := range replicas {
		r := addReplica(b, n, firstOld+i)
		old, names = append(old, r), append(names, r.name)
	}
	b.Answers(s.Client, "tcp", to, names...)
	open := map[string][]idleConn{}
	for range 2 * replicas {
		c, r, a := s.Open(to)
		open[a.Pod] = append(open[a.Pod], idleConn{c, r})
	}
	stop := s.Load(to)
	began := time.Now()
	var want []string
	for i, o := range old {
		r := addReplica(b, n, firstNew+i)
		want = append(want, r.at.IPv4.String()+" ready")
		retire(b, n, o, open[o.name])
	}
	n.WaitEndpoints("web", want...)
	b.Logf("%d Pods replaced in %v", replicas, since(began))
	count, failed := stop()
	if len(failed) > 0 {
		b.Errorf("%d connections failed, the first: %v; served: %v", len(failed), failed[0], count)
	}
	delete(count, "")
	if len(count) != 2*replicas {
		b.Errorf("answered by %v, want each of the %d Pods", count, 2*replicas)
	}
	b.Answers(s.Client, "tcp", to, "a5", "a6", "a7", "a8")
	b.Logf("served: %v", count)
}

// addReplica starts a server and creates its Pod.
func addReplica(b *apibed.Bed, n *cluster.Namespace, number int) *replica {
	b.Helper()
	s, r := b.Sites[0], &replica{number: number, name: fmt.Sprint("a", number)}
	r.at = s.Net.Pod(number)
	r.server = s.Bed.Serve(r.at, rolloutPort, bed.NamesItself(r.name))
	n.Pod(r.name, "web", s.Name, r.at)
	return r
}

// retire terminates a Pod. Its open connections continue until their clients close them.
func retire(b *apibed.Bed, n *cluster.Namespace, r *replica, open []idleConn) {
	b.Helper()
	n.Terminate(r.name)
	b.Sites[0].Refuse(r.number)
	time.Sleep(300 * time.Millisecond)
	if len(open) == 0 {
		b.Errorf("no connection to %s was held", r.name)
	}
	for _, h := range open {
		if err := bed.Echoes(h.conn, h.reader); err != nil {
			b.Errorf("a connection to %s, which terminates: %v", r.name, err)
		}
		h.conn.Close()
	}
	b.Sites[0].Eventually("connections to "+r.name+" to end", func() bool { return idle(r.server) })
	r.server.Stop()
	n.Remove(r.name)
}

// idle tells whether the server has had no connection for a short time.
func idle(s *bed.Server) bool {
	for range 10 {
		s.Mu.Lock()
		n := len(s.Conns)
		s.Mu.Unlock()
		if n > 0 {
			return false
		}
		time.Sleep(10 * time.Millisecond)
	}
	return true
}
