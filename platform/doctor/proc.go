package doctor

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
)

// parseConntrackStats adds up /proc/net/stat/nf_conntrack: a header, and a line of hexadecimal counters for each CPU.
func parseConntrackStats(text string) (out ConntrackStats, err error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	names := strings.Fields(lines[0])
	for _, line := range lines[1:] {
		for i, field := range strings.Fields(line)[:min(len(names), len(strings.Fields(line)))] {
			n, err := strconv.ParseUint(field, 16, 64)
			if err != nil {
				return out, fmt.Errorf("/proc/net/stat/nf_conntrack: %w", err)
			}
			switch names[i] {
			case "insert_failed":
				out.InsertFailed += n
			case "drop":
				out.Drop += n
			case "early_drop":
				out.EarlyDrop += n
			}
		}
	}
	return out, nil
}

// fileLock is a line of /proc/locks.
type fileLock struct {
	pid     int
	inode   uint64
	device  string // major:minor, hexadecimal
	waiting bool   // for the lock of another
}

// parseLocks parses the locks of whole files, by flock(2), in /proc/locks.
func parseLocks(text string) (out []fileLock) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		waiting := len(fields) > 1 && fields[1] == "->"
		if waiting {
			fields = append(fields[:1], fields[2:]...)
		}
		if len(fields) < 6 || fields[1] != "FLOCK" {
			continue
		}
		pid, err1 := strconv.Atoi(fields[4])
		i := strings.LastIndex(fields[5], ":")
		inode, err2 := strconv.ParseUint(fields[5][i+1:], 10, 64)
		if err1 == nil && err2 == nil && i > 0 {
			out = append(out, fileLock{pid, inode, fields[5][:i], waiting})
		}
	}
	return out
}

// The states of sockets in /proc/net/tcp and udp.
const (
	tcpListen = "0A"
	udpBound  = "07" // and not connected
)

// parseSockets calls each for the sockets of /proc/net/tcp, tcp6, udp or udp6 that are in a state. Those that listen
// are the first of TCP, so it ends after them.
func parseSockets(r io.Reader, state string, each func(Listener)) error {
	lines := bufio.NewScanner(r)
	lines.Scan() // the header
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 {
			return errors.New("a line of sockets is too short")
		}
		if fields[3] != state {
			if state == tcpListen {
				return nil
			}
			continue
		}
		at, err := parseHexAddr(fields[1])
		inode, err2 := strconv.ParseUint(fields[9], 10, 64)
		if err := errors.Join(err, err2); err != nil {
			return fmt.Errorf("read sockets: %w", err)
		}
		each(Listener{Address: at, Inode: inode})
	}
	return lines.Err()
}

// parseHexAddr parses an address such as 0100007F:1F90: words in the byte order of the host.
func parseHexAddr(text string) (netip.AddrPort, error) {
	addr, port, _ := strings.Cut(text, ":")
	b, err := hex.DecodeString(addr)
	n, err2 := strconv.ParseUint(port, 16, 16)
	if err := errors.Join(err, err2); err != nil || len(b) != 4 && len(b) != 16 {
		return netip.AddrPort{}, fmt.Errorf("%q is not an address", text)
	}
	for i := 0; i < len(b); i += 4 {
		nativeWord(b[i : i+4])
	}
	ip, _ := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(ip.Unmap(), uint16(n)), nil
}

// parseOpenFiles returns the soft limit of open files in /proc/PID/limits.
func parseOpenFiles(text string) (int, error) {
	for line := range strings.Lines(text) {
		rest, found := strings.CutPrefix(line, "Max open files")
		if fields := strings.Fields(rest); found && len(fields) > 0 {
			return strconv.Atoi(fields[0])
		}
	}
	return 0, errors.New("there is no limit of open files in /proc/PID/limits")
}

// parseServers returns the virtual servers of /proc/net/ip_vs.
func parseServers(text string) (out []string) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "TCP", "UDP", "SCTP":
			out = append(out, fields[0]+" "+serverAddr(fields[1]))
		case "FWM":
			out = append(out, "mark "+fields[1])
		}
	}
	return out
}

// serverAddr makes an address of /proc/net/ip_vs readable: 0A600001:01BB, or [fd00:…]:01BB.
func serverAddr(text string) string {
	addr, port, ok := cutLast(text, ":")
	n, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil {
		return text
	}
	if b, err := hex.DecodeString(addr); err == nil && len(b) == 4 {
		addr = netip.AddrFrom4([4]byte(b)).String()
	}
	return fmt.Sprintf("%s:%d", addr, n)
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// parseSockstat reads the numbers of sockets in /proc/net/sockstat or sockstat6.
func parseSockstat(text string) (out Sockets) {
	for line := range strings.Lines(text) {
		kind, rest, _ := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		for i := 0; i+1 < len(fields); i += 2 {
			n, _ := strconv.Atoi(fields[i+1]) // the kernel writes numbers
			switch strings.TrimSuffix(kind, "6") + " " + fields[i] {
			case "TCP inuse":
				out.TCP += n
			case "TCP tw":
				out.TimeWait += n
			case "UDP inuse":
				out.UDP += n
			}
		}
	}
	return out
}

// parseCgroups returns the group's path of version 2, and the path of the memory controller of version 1, in
// /proc/PID/cgroup; empty if there is none.
func parseCgroups(text string) (v2, v1 string) {
	for line := range strings.Lines(strings.TrimSpace(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(parts) < 3:
		case parts[0] == "0" && parts[1] == "":
			v2 = parts[2]
		case strings.Contains(","+parts[1]+",", ",memory,"):
			v1 = parts[2]
		}
	}
	return v2, v1
}

// field returns the number of a line such as "oom_kill 3"; 0 if there is none.
func field(text, name string) int64 {
	for line := range strings.Lines(text) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), " "); key == name {
			n, _ := strconv.ParseInt(value, 10, 64)
			return n
		}
	}
	return 0
}

// nativeWord turns a number as printed, most significant byte first, into the bytes that it has in memory.
func nativeWord(b []byte) { binary.NativeEndian.PutUint32(b, binary.BigEndian.Uint32(b)) }
