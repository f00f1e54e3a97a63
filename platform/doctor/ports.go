package doctor

import (
	"fmt"
	"slices"

	"github.com/portald/portald/platform/inet"
)

func portChecks() []Check {
	return []Check{{
		Name: "port-taken", Severity: Warning, System: linux,
		What: "another program listens on a NodePort, or on the port of one of portald's listeners",
		Why:  "Rules come before sockets: packets to that port of the node reach the Service, never that program.",
		Do:   "ss -lntup 'sport = :PORT'; move the program, or the NodePort", run: portsAreFree,
	}, {
		Name: "local-ports-nodeports", Severity: Warning, System: linux,
		What: "the kernel may choose NodePorts as local ports of outgoing connections",
		Why: "While a connection uses the port, portald cannot listen on a NodePort of the loopback address, " +
			"and cannot open health check ports of Services.",
		Do: "sysctl -w net.ipv4.ip_local_reserved_ports=30000-32767", run: nodePortsAreReserved,
	}, {
		Name: "local-ports-proxy", Severity: Note, System: linux,
		What: "the kernel may choose proxy ports as local ports of outgoing connections",
		Why:  "portald skips proxy ports that are in use, which leaves gaps in the ports that it uses.",
		Do:   "set ip_local_port_range and proxyPortRange so that they do not overlap", run: proxyPortsAreApart,
	}, {
		Name: "local-ports-room", Severity: Error, System: linux, What: "the node's local ports of UDP are nearly used up",
		Why: "A UDP socket needs a port for itself: when all are in use, the node cannot send queries. (TCP " +
			"connections to " +
			"different endpoints share ports.) A warning from 80 %, an error from 95 % on.",
		Do: "ss -s; sysctl -w net.ipv4.ip_local_port_range='16384 60999'; set udpMaxSessionsTotal", run: localPortsAreLeft,
	}}
}

// ports are the NodePorts of Services, and the proxy ports, with the Services that they are of.
func (all Services) ports() (nodePorts, proxyPorts map[servicePort]string) {
	nodePorts, proxyPorts = map[servicePort]string{}, map[servicePort]string{}
	for _, s := range all {
		for _, fe := range s.Frontends {
			if fe.Kind == nodePort {
				nodePorts[servicePort{s.Protocol, fe.Address.Port()}] = s.Name
			}
			if fe.ProxyPort != 0 {
				proxyPorts[servicePort{s.Protocol, fe.ProxyPort}] = s.Name
			}
		}
	}
	return nodePorts, proxyPorts
}

type servicePort struct {
	protocol string
	port     uint16
}

func portsAreFree(f *Facts) result {
	all, err := f.services()
	switch {
	case err != nil:
		return unknown(err)
	case f.Listeners.Err != nil:
		return unknown(f.Listeners.Err)
	case f.Process.Err != nil:
		return unknown(fmt.Errorf("which sockets are portald's: %w", f.Process.Err))
	}
	nodePorts, proxyPorts := all.ports()
	out := result{ok: fmt.Sprintf("no other program listens at %d NodePorts and %d proxy ports", len(nodePorts),
		len(proxyPorts))}
	for _, l := range f.Listeners.Value {
		if _, own := f.Process.Value.Sockets[l.Inode]; own {
			continue
		}
		at := servicePort{l.Protocol, l.Address.Port()}
		if service, taken := nodePorts[at]; taken {
			out.problems = append(out.problems, l.hidden("the NodePort of", service))
		} else if service, taken := proxyPorts[at]; taken {
			out.problems = append(out.problems, l.hidden("a proxy port of", service))
		}
	}
	return out.firstOf("sockets")
}

func (l Listener) hidden(what, service string) problem {
	by := "a process that is not visible here"
	if l.PID != 0 {
		by = fmt.Sprintf("%s (pid %d)", l.Process, l.PID)
	}
	return problem{
		seen: fmt.Sprintf("%s listens at %s/%s, which is %s %s", by, l.Address, l.Protocol, what, service),
		do:   fmt.Sprintf("ss -lntup 'sport = :%d'; move the program, or the NodePort", l.Address.Port()),
	}
}

func nodePortsAreReserved(f *Facts) result {
	nodePorts, _ := f.Services.Value.ports()
	return f.chosen("NodePorts", nodePorts)
}

func proxyPortsAreApart(f *Facts) result {
	_, proxyPorts := f.Services.Value.ports()
	return f.chosen("proxy ports", proxyPorts)
}

// chosen finds ports that the kernel may choose for outgoing connections.
func (f *Facts) chosen(what string, ports map[servicePort]string) result {
	if _, err := f.services(); err != nil {
		return unknown(err)
	}
	local, err := f.localPorts()
	if err != nil {
		return unknown(err)
	}
	var in []int
	for p := range ports {
		if local.chooses(p.port) && !slices.Contains(in, int(p.port)) {
			in = append(in, int(p.port))
		}
	}
	slices.Sort(in)
	if len(in) > 0 {
		return wrong("", "%d %s are in ip_local_port_range (%d-%d) and not reserved: %s", len(in), what, local.First,
			local.Last, few(in))
	}
	return well("the kernel chooses local ports from %d-%d, without %s", local.First, local.Last, what)
}

// localPorts are the ports that the kernel chooses from.
type localPorts struct {
	inet.PortRange
	reserved []inet.PortRange
}

func (l localPorts) chooses(port uint16) bool {
	in := func(r inet.PortRange) bool { return r.Contains(port) }
	return l.Contains(port) && !slices.ContainsFunc(l.reserved, in)
}

func (f *Facts) localPorts() (out localPorts, err error) {
	text, err := f.sysctl(localRange)
	if err != nil {
		return out, err
	}
	if _, err := fmt.Sscan(text, &out.First, &out.Last); err != nil {
		return out, fmt.Errorf("%s is %q, which are not two ports", localRange, text)
	}
	text, err = f.sysctl(reservedPorts)
	if err != nil {
		return out, err
	}
	out.reserved, err = inet.ParsePortRanges(text)
	return out, err
}

func localPortsAreLeft(f *Facts) result {
	if f.Sockets.Err != nil {
		return unknown(f.Sockets.Err)
	}
	local, err := f.localPorts()
	if err != nil {
		return unknown(err)
	}
	s, all := f.Sockets.Value, int(local.Last)-int(local.First)+1
	seen := fmt.Sprintf("%d UDP sockets, %d TCP connections and %d in TIME_WAIT, for %d local ports", s.UDP, s.TCP,
		s.TimeWait, all)
	return full(percent(s.UDP, all), seen, "")
}
