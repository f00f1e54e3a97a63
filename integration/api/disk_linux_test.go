package api

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"

	corev1 "k8s.io/api/core/v1"
)

// diskFull fills the disk until records exceed the write buffer. Lost records are counted, and no client is affected.
func (f *faults) diskFull() {
	const dropped = "portald_connection_records_dropped_total"
	disk, makeRoom := f.fullDisk()
	f.serves("--connection-log="+filepath.Join(disk, "records"), "--udp-max-sessions=50") // more evict one
	service, slice := serviceOf("flood"), sliceOf("flood", bed.PodPort, f.pods(0)...)
	service.Spec.Ports[0].Protocol, slice.Ports[0].Protocol = corev1.ProtocolUDP, new(corev1.ProtocolUDP)
	to := f.write(service, slice)
	f.site.Eventually("datagrams to be answered", func() bool {
		return apibed.Outcome(apibed.NoReplyTimeout, f.site.Client, "udp", to) == "a0"
	})

	d, t := f.site.D, startTraffic(f.site.Bed, f.cart)
	began := time.Now()
	n := flood(f.site.Bed, to, func() bool { return d.Metric(dropped) > 0 || since(began) > bed.Patience })
	f.Logf("%d UDP flows in %v", n, since(began))
	if n := d.Metric(dropped); n == 0 {
		f.Error("no record was dropped")
	}
	f.changesArrive()
	t.stop()
	makeRoom()
	f.site.Eventually("records to be written again", func() bool { return said(d, "Can write connection log again") == 1 })
	f.site.Eventually("the log to report dropped records", func() bool { return said(d, "Connection log dropped") == 1 })
}

// fullDisk mounts a full disk. makeRoom frees space for all buffered records.
func (f *faults) fullDisk() (dir string, makeRoom func()) {
	f.Helper()
	const size = "32m"
	dir = f.TempDir()
	f.site.Must(unix.Mount("none", dir, "tmpfs", 0, "size="+size))
	f.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 33<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		f.Fatalf("write more than a disk of %s has: %v", size, err)
	}
	return dir, func() { f.site.Must(os.Remove(filler)) }
}

// flood sends datagrams, each from a new source port, as fast as it can, until enough returns true. It returns their
// number.
func flood(b *bed.Bed, to string, enough func() bool) int {
	b.Helper()
	var done atomic.Bool
	var count atomic.Int64
	var wg sync.WaitGroup
	for range trafficClients {
		wg.Go(func() {
			if err := b.Client.Do(func() error { return datagrams(to, &done, &count) }); err != nil {
				b.Error(err)
			}
		})
	}
	for !enough() {
		time.Sleep(100 * time.Millisecond)
	}
	done.Store(true)
	wg.Wait()
	return int(count.Load())
}

func datagrams(to string, done *atomic.Bool, count *atomic.Int64) error {
	for !done.Load() {
		c, err := net.Dial("udp", to)
		if err != nil {
			return err
		}
		_, err = c.Write([]byte("?"))
		c.Close()
		if err != nil {
			return err
		}
		count.Add(1)
	}
	return nil
}
