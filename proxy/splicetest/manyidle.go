package splicetest

import (
	"fmt"
	"runtime"

	"github.com/portald/portald/proxy/splice"
)

func manyIdleScenarios() []scenario {
	return []scenario{{name: "ThousandsIdle", run: thousandsIdle, scope: alone}}
}

// thousandsIdle: thousands of idle connections are open at once. Each still carries bytes, costs little memory, and is
// given back at its end. Clients and the endpoint are another process, so that only the engine's memory is measured.
func thousandsIdle(t *trial) {
	const most = 64 << 10
	connections := manyConns()
	d := t.start(splice.Options{})
	p := startPeers(t)
	f := d.tcp(p.server)
	before, memory := usageOf(d), memoryInUse()
	fmt.Fprintln(p.in, f.at, connections)
	p.expect("held")
	if n := d.Stats().Connections; n != int64(connections) {
		t.Fatalf("%d connections are held, want %d", n, connections)
	}
	each := (memoryInUse() - memory) / int64(connections)
	t.Logf("%d connections: %d bytes of heap and stacks each", connections, each)
	if each > most {
		t.Errorf("an idle connection takes %d bytes, more than %d", each, most)
	}
	fmt.Fprintln(p.in, "exchange")
	p.expect("exchanged")
	p.in.Close()
	for range connections {
		if rec := d.record(); rec.BytesToClient != 2 {
			t.Fatalf("record %+v", rec)
		}
	}
	t.eventually("all is given back", func() bool {
		after := usageOf(d)
		return after.descriptors <= before.descriptors+5 &&
			after.goroutines <= before.goroutines+5
	})
}

// manyConns returns how many connections are opened. Wine has one process with the sockets of all others, four for each
// connection.
func manyConns() int {
	if runtime.GOOS == "windows" {
		return 2000
	}
	return 5000
}

// memoryInUse is the memory of objects and stacks, in bytes.
func memoryInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
