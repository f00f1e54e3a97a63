package ui

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/browser"
	"github.com/portald/portald/integration/topology"
	"github.com/portald/portald/proxy/webui"
)

// workers are the nodes of the pictures.
var workers = []string{"worker-1", "worker-2", "worker-3"}

// Of three nodes, each with pods that have the names and addresses of those of the others, the page tells which
// endpoint fails where: cart-b resets one connection in eight, and worker-3 alone cannot reach cart-c. With -pictures
// cart-a is taken out, and comes back.
func TestThreeNodes(t *testing.T) {
	nodes, ended := make(chan webui.Node, len(workers)), make(chan struct{})
	for _, name := range workers {
		t.Run(name, func(t *testing.T) {
			b := bed.New(t)
			work(b, name, nodes, ended)
		})
	}
	t.Run("page", func(t *testing.T) {
		topology.Require(t, "chromium")
		b := bed.New(t)
		defer close(ended)
		var all []webui.Node
		for range workers {
			select {
			case n := <-nodes:
				all = append(all, n)
			case <-time.After(time.Minute):
				t.Fatal("a node does not start: see its test")
			}
		}
		slices.SortFunc(all, func(a, b webui.Node) int { return cmp.Compare(a.Name, b.Name) })
		threeNodes(b, pageOf(b, all...))
	})
}

// work is a node with clients, until the pictures are made.
func work(b *bed.Bed, name string, nodes chan<- webui.Node, ended <-chan struct{}) {
	for pod, handle := range []func(*net.TCPConn){answers(30), sometimesResets(8), answers(200)} {
		b.Serve(b.Net.Pod(pod), bed.PodPort, handle)
	}
	if name == "worker-3" {
		b.Refuse(2)
	}
	d := b.Start(shop(b, true), "--hostname-override="+name)
	nodes <- webui.Node{Name: name, Client: d.Admin()}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	for ip, pause := range map[string]int{"10.96.0.10": 90, "10.96.0.11": 60, "10.96.0.12": 250, "10.96.0.13": 700} {
		wg.Go(func() {
			for ctx.Err() == nil {
				(&scene{Bed: b}).clients(1, ip)
				time.Sleep(time.Duration(rand.IntN(2*pause)) * time.Millisecond)
			}
		})
	}
	change(b, d, ended)
	<-ended
	cancel()
	wg.Wait()
}

// change takes cart-a out in the middle of what the pictures show, and back.
func change(b *bed.Bed, d *bed.Daemon, ended <-chan struct{}) {
	for whole, after := range []time.Duration{150 * time.Second, 20 * time.Second} {
		select {
		case <-time.After(after):
			d.Apply(shop(b, whole == 1))
		case <-ended:
			return
		}
	}
}

// answers is a pod that takes up to so many milliseconds.
func answers(ms int) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		_, _ = c.Read(make([]byte, 64))
		time.Sleep(time.Duration(rand.IntN(ms)) * time.Millisecond)
		_, _ = io.WriteString(c, "welcome\n")
		_, _ = io.Copy(io.Discard, c)
	}
}

func sometimesResets(oneIn int) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		if rand.IntN(oneIn) == 0 {
			resets(c)
			return
		}
		answers(20)(c)
	}
}

// shop are the Services, of which cart has the pod cart-a or not.
func shop(b *bed.Bed, whole bool) (all string) {
	for name, ip := range map[string]string{"cart": "10.96.0.10", "catalog": "10.96.0.11", "payment": "10.96.0.12",
		"search": "10.96.0.13", "wishlist": "10.96.0.14", "mail": "10.96.0.15"} {
		s := b.Simple(name, ip, 0)
		s.Pods = nil
		for pod, letter := range []string{"a", "b", "c"} {
			e := bed.Endpoint{Pod: name + "-" + letter, V4: b.Net.Pod(pod).IPv4, Node: workers[pod]}
			switch {
			case name == "wishlist", name == "cart" && pod == 0 && !whole, name != "cart" && pod > 0:
			default:
				s.Pods = append(s.Pods, e)
			}
		}
		if name == "search" {
			s.Mode = "kernel"
			s.Annotations = []string{"portald.io/kernel-records: all"}
		}
		all += s.String()
	}
	return all
}

// fails tells, in JavaScript, whether an endpoint has failed connections of a node.
const fails = `((pod, node) => {
	const at = [...document.querySelectorAll(".matrix thead th")].findIndex((th) => th.innerText === node);
	const row = [...document.querySelectorAll(".matrix tbody tr")].find((tr) => tr.innerText.startsWith(pod));
	return row?.children[at]?.innerText.includes("✗") ?? null;
})`

func threeNodes(b *bed.Bed, origin string) {
	w := newBrowser(b, origin)
	w.Screen(1280, false)
	w.Visit(origin + "/#token=TOKEN")
	w.Has("tr", "shop/wishlist:http")
	w.Open("#/service/shop%2Fcart%3Ahttp/tcp")
	w.Eventually("who fails where", fmt.Sprintf(`%[1]s("shop/cart-c", "worker-3") === true &&
		%[1]s("shop/cart-c", "worker-1") === false && %[1]s("shop/cart-c", "worker-2") === false &&
		%[1]s("shop/cart-b", "worker-1") && %[1]s("shop/cart-b", "worker-2")`, fails))
	w.Run(`[...document.querySelectorAll(".links a")].find((a) => a.innerText === "Explain it").click()`)
	w.Has(".verdict", "refused")
	if node := browser.Evaluate[string](w, `document.querySelector("select").value`); node != "worker-3" {
		w.Errorf("%s is asked for an explanation: want worker-3, which has the problem", node)
	}
	w.Open("#/service/shop%2Fcart%3Ahttp/tcp")
	w.Has(".matrix td", "ms")
	for _, width := range []int64{360, 1024, 1280} {
		w.Screen(width, false)
		w.Fits("a Service of three nodes")
	}
	w.Open("#/nodes")
	w.Eventually("three nodes", `document.querySelectorAll('td[data-mark="good"]').length === 3`)
	if browser.Pictures() {
		forTheManual(w)
	}
	if elsewhere, errors := w.Complaints(); len(elsewhere) > 0 || len(errors) > 0 {
		w.Errorf("requests to others %v, errors %v", elsewhere, errors)
	}
}

// forTheManual makes its pictures, once the past is full.
func forTheManual(w *browser.Browser) {
	time.Sleep(4 * time.Minute)
	w.Size(1280, 480, false)
	w.Open("#/services")
	w.Shoot("ui-services")
	w.Size(1280, 800, false)
	w.Open("#/failures")
	w.Run(`document.querySelector("select").value = "5m";
		document.querySelector("select").dispatchEvent(new Event("change"))`)
	w.Has("td", "endpoint_reset")
	time.Sleep(time.Second)
	w.Run(`[...document.querySelectorAll("button[data-row]")].find((b) =>
		b.closest("tr").innerText.includes("endpoint_reset")).click()`)
	w.Shoot("ui-failures")
	w.Size(1280, 940, true)
	w.Open("#/service/shop%2Fcart%3Ahttp/tcp")
	w.Has(".matrix td", "ms")
	w.Shoot("ui-service")
	w.Screen(360, true)
	w.Open("#/services")
	w.Shoot("ui-phone")
}
