package modes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/portal/service"
)

// A Service that the kernel carries has the algorithm that its annotation asks for, as soon as it does, or the problem
// says what it may ask for; explain tells which it is.
func TestAlgorithmsOfTheKernel(t *testing.T) { bed.EachMode(t, algorithmsOfTheKernel) }

func algorithmsOfTheKernel(b *bed.Bed, m bed.Mode) {
	b.ServePods(0, 1, 2)
	cart := b.Cart(0, 1, 2)
	cart.Mode = "kernel"
	d := b.Start(cart, m.Args...)
	lacks := "least-connections source-hash" // of iptables
	switch {
	case strings.HasSuffix(m.Name, "nftables"):
		lacks = "least-connections"
	case strings.HasSuffix(m.Name, "IPVS"):
		lacks = "random"
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
				"algorithm is "+a.String()+", by the annotation portald.io/algorithm")
		})
		pods := answeringPods(b, 6)
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

// answeringPods returns the pods that answer n connections of one client, one after the other.
func answeringPods(b *bed.Bed, n int) (pods []string) {
	b.Helper()
	for range n {
		a, err := bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80))
		b.Must(err)
		pods = append(pods, a.Pod)
	}
	return pods
}

// The daemon's own algorithm is that of Services that ask for none, and changes while it runs: round robin is the
// kernel's own way then.
func TestAlgorithmOfTheDaemonChanges(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1, 2)
	choose := func(algorithm string) string {
		return b.WriteManifest("config.yaml", "apiVersion: portald.io/v1alpha1\nkind: PortaldConfiguration\nalgorithm: "+
			algorithm+"\n")
	}
	d := b.Start(b.Cart(0, 1, 2), "--proxy-mode=nftables", bed.PodRanges, "--config="+choose("round-robin"))
	for _, c := range []struct{ algorithm, says string }{
		{"round-robin", "is random, as where nothing is asked for"},
		{"source-hash", "is source-hash, the default of this node"},
		{"least-connections", "is random, as where nothing is asked for"},
	} {
		choose(c.algorithm)
		b.Eventually(c.algorithm+" to be in force", func() bool {
			return strings.Contains(fmt.Sprint(explainOf(d, "shop/cart:http", "").Sections), c.says)
		})
		pods := answeringPods(b, 6)
		if c.algorithm == "source-hash" && strings.Join(pods, "") != strings.Repeat(pods[0], len(pods)) {
			b.Errorf("one client has %v", pods)
		}
	}
	b.Eventually("a warning", func() bool {
		return strings.Contains(d.Log.String(), "algorithm: least-connections is not possible by the kernel with the writer")
	})
}
