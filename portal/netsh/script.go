package netsh

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// netsh reads this many commands from one script at most, and is killed after this time. A process takes about 100 ms
// to start, and a command some milliseconds.
const (
	maxScript = 200
	maxTime   = 30 * time.Second
)

var errTooLong = fmt.Errorf("netsh has not ended after %s", maxTime)

// addCommand are the arguments that add an address to a device, which is an index, or a name in quotes.
func addCommand(device string, a netip.Addr) []string {
	if a.Is6() {
		return []string{"interface", "ipv6", "add", "address", "interface=" + device, "address=" + a.String() + "/128",
			"store=active", "skipassource=true"}
	}
	return []string{"interface", "ipv4", "add", "address", "name=" + device, "address=" + a.String(),
		"mask=255.255.255.255", "store=active", "skipassource=true"}
}

// removeCommand are those that remove one.
func removeCommand(device string, a netip.Addr) []string {
	if a.Is6() {
		return []string{"interface", "ipv6", "delete", "address", "interface=" + device, "address=" + a.String(),
			"store=active"}
	}
	return []string{"interface", "ipv4", "delete", "address", "name=" + device, "address=" + a.String(), "store=active"}
}

// runEach runs a process for each address.
func (w *Writer) runEach(ctx context.Context, t task, addrs []netip.Addr) (map[netip.Addr]Result, error) {
	said := map[netip.Addr]Result{}
	for _, a := range addrs {
		result, err := w.run(ctx, t.command(strconv.Itoa(w.host.device.Index), a)...)
		if err != nil {
			return nil, err
		}
		said[a] = result
	}
	return said, nil
}

// runScripts runs a process for many addresses. Its result counts for each.
func (w *Writer) runScripts(ctx context.Context, t task, addrs []netip.Addr) (map[netip.Addr]Result, error) {
	said := make(map[netip.Addr]Result, len(addrs))
	for some := range slices.Chunk(addrs, maxScript) {
		var script strings.Builder
		for _, a := range some {
			script.WriteString(strings.Join(t.command(strconv.Itoa(w.host.device.Index), a), " ") + "\r\n")
		}
		result, err := w.runScript(ctx, script.String())
		if err != nil {
			return nil, err
		}
		for _, a := range some {
			said[a] = result
		}
	}
	return said, nil
}

// runScript has netsh read a script. It is in the state folder, which only administrators can write to: a script of
// netsh can load programs.
func (w *Writer) runScript(ctx context.Context, text string) (Result, error) {
	file, err := os.CreateTemp(w.State, scriptForm)
	if err != nil {
		return Result{}, fmt.Errorf("write a script for netsh: %w", err)
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString(text)
	if err := errors.Join(err, file.Close()); err != nil {
		return Result{}, fmt.Errorf("write a script for netsh: %w", err)
	}
	return w.run(ctx, "-f", file.Name())
}

func (w *Writer) run(ctx context.Context, args ...string) (Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, maxTime, errTooLong)
	defer cancel()
	return w.Run(ctx, args...)
}
