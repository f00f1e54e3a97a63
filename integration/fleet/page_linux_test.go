package fleet

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/portald/portald/integration/browser"
	"github.com/portald/portald/integration/cluster"
	"github.com/portald/portald/integration/topology"
)

// page has the plugin serve the page, and looks at it: it has the rows of all nodes, and the one whose daemon does not
// answer is named with its reason, once on each view.
func (f *fleet) page() {
	topology.Require(f.T, "chromium")
	var said bytes.Buffer
	address, end := f.serve(&said)
	origin, _, _ := strings.Cut(address, "/#")
	w := browser.New(f.T, f.cluster.Host, origin)
	w.Patience = time.Minute
	w.Screen(1280, false)
	w.Visit(address)
	w.Eventually("the connections of all nodes", fmt.Sprintf(`(() => {
		const row = document.querySelector('a[href="#/service/shop%%2Fcart%%3Ahttp/tcp"]')?.closest("tr");
		return row?.querySelector('[data-name="Open"]').innerText === "%d";
	})()`, nodes))
	w.Has("#gone", "1 node not answering, and not in these figures: node-mute (")
	w.Shoot("fleet-services")
	w.Open("#/service/shop%2Fcart%3Ahttp/tcp")
	columns := func(nodes int) string {
		return fmt.Sprintf(`document.querySelectorAll(".matrix thead th").length === %d`, nodes+1)
	}
	w.Eventually("a column of some nodes", columns(12))
	w.Run(`document.querySelector(".plain").click()`)
	w.Eventually("a column of each node", columns(nodes))
	w.Run(`document.querySelector(".plain").click()`)
	w.Eventually("a column of some nodes again", columns(12))
	for _, width := range []int64{360, 1280} {
		w.Screen(width, false)
		w.Fits("a Service of all nodes")
		w.Shoot(fmt.Sprint("fleet-service-", width))
	}
	w.Open("#/connections")
	w.Eventually("the first 200 of them", `document.querySelectorAll("tbody tr").length === 200`)
	w.Open("#/nodes")
	w.Eventually("a row of each node", fmt.Sprintf(`document.querySelectorAll("tbody tr").length === %d &&
		document.querySelectorAll('td[data-mark="bad"]').length === 1`, nodes+1))
	first := browser.Evaluate[string](w, `document.querySelector("tbody tr").innerText`)
	if !strings.HasPrefix(first, "node-mute") {
		f.Errorf("the first node is not the one that does not answer: %q", first)
	}
	w.Shoot("fleet-nodes")
	warnings := `document.querySelectorAll(".warning[role=status], [role=alert]:not([hidden])").length`
	if n := browser.Evaluate[int](w, warnings); n != 1 {
		f.Errorf("%d warnings of one node", n)
	}
	if elsewhere, errors := w.Complaints(); len(elsewhere) > 0 || len(errors) > 0 {
		f.Errorf("requests to others %v, errors %v", elsewhere, errors)
	}
	if end(); said.Len() > 0 {
		f.Errorf("it says on standard error: %s", &said)
	}
}

// serve starts kubectl portald ui, and returns the address that it prints, and what ends it.
func (f *fleet) serve(errOut io.Writer) (address string, end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	cmd := f.command(ctx, cluster.Admin, "ui", "--no-browser", patient)
	cmd.Stderr = errOut
	out, err := cmd.StdoutPipe()
	f.must(err)
	f.must(cmd.Start())
	end = sync.OnceFunc(func() { cancel(); _ = cmd.Wait() }) // it was killed
	f.Cleanup(end)
	line, err := bufio.NewReader(out).ReadString('\n')
	f.must(err)
	return strings.TrimSpace(line), end
}
