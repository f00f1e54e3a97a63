package modes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/proxy/service"
)

// A Service that the kernel carries has the algorithm that its annotation asks for, as soon as it does, or the problem
// says what it may ask for; explain tells which it is.
func TestAlgorithmsOfTheKernel(t *testing.T) { bed.EachMode(t, algorithmsOfTheKernel) }

func algorithmsOfTheKernel(b *bed.Bed, m bed.Mode) {
	b.ServePods(0, 1, 2)
	cart := b.Cart(0, 1, 2)
	cart.Mode = "kernel"
	d := b.Start(cart, m.Args...)
	lacks := map[string]string{"nftables": "least-connections", "IPVS": "random"}[m.Name[strings.LastIndex(m.Name, " ")+1:]]
	if lacks == "" {
		lacks = "least-connections source-hash" // iptables
	}
	for _, a := range service.Algorithms() {
		cart.Annotations = []string{"portald.io/algorithm: " + a.String()}
		d.WriteManifest(bed.Manifest, cart)
		problem := `\"` + a.String() + `\": is not possible by the kernel`
		if strings.Contains(lacks, a.String()) {
			b.Eventually("the problem of "+a.String(), func() bool { return strings.Contains(d.Log.String(), problem) })
			explainOf(d, "shop/cart:http", "").has("Problems", "is not possible by the kernel")
			continue
		}
		if strings.Contains(d.Log.String(), problem) {
			b.Errorf("%s is a problem", a)
		}
		b.Eventually(a.String()+" to be in force", func() bool {
			return strings.Contains(fmt.Sprint(explainOf(d, "shop/cart:http", "").Sections),
				"chooses endpoints by "+a.String()+", by the annotation portald.io/algorithm")
		})
		pods := asked(b, 6)
		switch inTurns := pods[0] != pods[1] && pods[1] != pods[2] && pods[0] != pods[2]; a {
		case service.RoundRobin:
			if !inTurns || strings.Join(pods[:3], " ") != strings.Join(pods[3:], " ") {
				b.Errorf("not in turns: %v", pods)
			}
		case service.SourceHash:
			if strings.Join(pods, "") != strings.Repeat(pods[0], len(pods)) {
				b.Errorf("one client has %v", pods)
			}
		}
	}
}

// asked are the pods that answer so many connections of one client, one after the other.
func asked(b *bed.Bed, n int) (pods []string) {
	b.Helper()
	for range n {
		a, err := bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80))
		b.Must(err)
		pods = append(pods, a.Pod)
	}
	return pods
}
