package top

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gdamore/tcell/v2"

	"github.com/portald/portald/proxy/adminsocket"
)

// shop is a bed with three connections.
func shop(t *testing.T) *bed {
	b := newBed(t)
	b.connections = []adminsocket.Connection{
		conn(1, "shop/cart:http", "10.0.0.1:1001", 1000), conn(2, "shop/cart:http", "10.0.0.2:1002", 3_000_000),
		conn(3, "shop/dns", "10.0.0.3:1003", 20_000),
	}
	b.serve()
	b.start()
	b.want("portald v1 on node-1, mode userspace, rules by iptables", "SERVICE")
	b.press("2")
	b.order("10.0.0.2:1002", "10.0.0.3:1003", "10.0.0.1:1001") // by bytes
	return b
}

func TestConnections(t *testing.T) {
	b := shop(t)
	b.want("shop/cart:http", "10.1.1.1:8080 shop/cart-a", "3.0MB", "60m")
	steady := b.grows(func() { b.connections[1].BytesFromEndpoint += 1 << 42 })
	b.want("TB/s")
	steady()
	b.wantNot("TB/s")
}

func TestSortAndFilter(t *testing.T) {
	b := shop(t)
	b.press("r")
	b.order("10.0.0.1:1001", "10.0.0.3:1003", "10.0.0.2:1002")
	b.press(">>>") // beyond the last column: the first
	b.want("ID↓")
	b.order("10.0.0.3:1003", "10.0.0.2:1002", "10.0.0.1:1001")
	b.press("<")
	b.want("RTT↓")
	b.press("/DNSx")
	b.wantNot("10.0.0.1:1001")
	b.key(tcell.KeyBackspace2)
	b.key(tcell.KeyEnter)
	b.want("10.0.0.3:1003", "/dns")
	b.wantNot("10.0.0.2:1002")
	b.key(tcell.KeyEscape)
	b.want("10.0.0.2:1002")
	b.press("/10.0.0.2/31")
	b.key(tcell.KeyEnter)
	b.until(func(now string) bool {
		has := func(text string) bool { return strings.Contains(now, text) }
		return has("connections /10.0.0.2/31") && has("10.0.0.2:1002") && has("10.0.0.3:1003") && !has("10.0.0.1:1001")
	}, "those of the filter's network")
}

// The row that was chosen stays chosen while others come before it.
func TestChosenRowStays(t *testing.T) {
	b := shop(t)
	b.key(tcell.KeyDown)
	b.change(func() { b.connections = append(b.connections, conn(4, "shop/cart:http", "10.0.0.4:1004", 1<<40)) })
	b.want("10.0.0.4:1004")
	b.key(tcell.KeyEnter)
	b.want("connections > connection 3")
}

func TestDetails(t *testing.T) {
	b := shop(t)
	b.change(func() { b.connections[1].ClientTCP = &adminsocket.TCP{RTTms: 1.5, RTTVarms: 0.5, Retransmits: 1} })
	b.key(tcell.KeyEnter)
	b.want("connections > connection 2", "dialled        10.96.0.10:80, ClusterIP", "dials          2",
		"client TCP     rtt 1.5ms ± 0.5ms, 1 segment retransmitted", "endpoint TCP   -")
	b.change(func() { b.connections = b.connections[:1] })
	b.want("It has ended", "10.0.0.2:1002")
	b.key(tcell.KeyEscape)
	b.wantNot("It has ended")
	b.wantNot("10.0.0.2:1002")
	b.want("10.0.0.1:1001")
}

func TestCut(t *testing.T) {
	b := shop(t)
	b.press("c")
	b.want("Cut connection 2 of shop/cart:http from 10.0.0.2:1002? y/n")
	b.press("n")
	b.wantNot("y/n")
	b.press("c")
	b.want("y/n")
	b.press("y")
	b.want("Connection 2 was cut")
	b.wantNot("10.0.0.2:1002")
	if !slices.Equal(b.cut, []uint64{2}) {
		t.Errorf("cut %v", b.cut)
	}
	b.change(func() { b.connections = []adminsocket.Connection{conn(0, "shop/kernel", "10.0.0.5:1005", 1)} })
	b.want("shop/kernel")
	b.press("c")
	b.want("cannot cut it")
}

func TestPause(t *testing.T) {
	b := shop(t)
	b.press("p")
	b.want("PAUSED")
	b.change(func() { b.connections = nil })
	b.press("r") // still drawn
	b.order("10.0.0.1:1001", "10.0.0.2:1002")
	b.press("p")
	b.wantNot("10.0.0.1:1001")
	b.wantNot("PAUSED")
}

// A daemon that is away leaves the last figures, and they go on when it is back.
func TestDaemonAway(t *testing.T) {
	b := shop(t)
	check(t, b.server.Close())
	b.want("portald is not reachable", "10.0.0.1:1001")
	b.change(func() { b.connections = append(b.connections, conn(9, "shop/new", "10.0.0.9:1009", 1)) })
	b.serve()
	b.want("portald v1 on node-1", "10.0.0.9:1009")
	b.wantNot("not reachable")
}

func TestHelpAndQuit(t *testing.T) {
	b := shop(t)
	b.press("?")
	b.want("drop the filter, go back", "connections > help")
	b.key(tcell.KeyEscape)
	b.want("10.0.0.1:1001")
	b.screen.SetSize(60, 10)
	b.want("10.0.0.2:1002", "? help")
	b.press("q")
}

// Texts of tenants do nothing to the terminal, nor to the colours of the library.
func TestTextIsEscaped(t *testing.T) {
	b := newBed(t)
	c := conn(1, "shop/[red]cart", "10.0.0.1:1001", 1)
	c.Pod, c.State = "shop/\x1b[31mx\n", "[::b]open"
	b.connections = []adminsocket.Connection{c}
	b.serve()
	b.start()
	b.press("2")
	b.want("shop/[red]cart", `shop/\x1b[31mx\n`, "[::b]open")
	b.key(tcell.KeyEnter)
	b.want("shop/[red]cart", `shop/\x1b[31mx\n`, "[::b]open")
}

// Thousands of rows keep the screen usable: it asks for those with the most bytes.
func TestManyConnections(t *testing.T) {
	b := newBed(t)
	for i := range 5000 {
		b.connections = append(b.connections,
			conn(uint64(i+1), "shop/cart", fmt.Sprintf("10.0.%d.%d:1000", i/250, i%250), int64(i)))
	}
	b.serve()
	b.start()
	b.press("2")
	b.want("10.0.19.249:1000")
	b.key(tcell.KeyEnd)
	b.want("10.0.18.0:1000")
}
