package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/portald/portald/platform/hns"
	"github.com/portald/portald/platform/inet"
)

func windowsChecks() []Check {
	return []Check{{
		Name: "windows-elevated", Severity: Note, System: windows, What: "the doctor runs without administrator " +
			"rights",
		Why: "portald's pipe answers only administrators, so most checks are impossible.",
		Do:  "run it in an elevated prompt", run: runsElevated,
	}, {
		Name: "windows-service", Severity: Warning, System: windows, What: "the service portald is missing or " +
			"not running",
		Why: "Services are not served after Windows next starts.",
		Do:  "portald service install; portald service start", run: serviceRuns,
	}, {
		Name: "windows-excluded-ports", Severity: Error, System: windows,
		What: "Windows reserves ports that Services need",
		Why: "portald listens on the ports of the Services themselves; Windows refuses ports in its excluded " +
			"ranges " +
			"(Hyper-V and WinNAT reserve some at each start).",
		Do: "netsh interface ipv4 show excludedportrange protocol=tcp; net stop winnat, portald service start, net " +
			"start winnat",
		run: portsAreNotExcluded,
	}, {
		Name: "windows-overlay", Severity: Error, System: windows, What: "a network of pods is an overlay",
		Why: "Windows reaches pods in an overlay network only from their own node: connections to endpoints on other " +
			"nodes time out.",
		Do:  "kube-proxy on this node, or an l2bridge network; nothing if no pods are in this network",
		run: noOverlay,
	}, {
		Name: "windows-hns-load-balancers", Severity: Error, System: windows,
		What: "HNS has load balancers that another service proxy made",
		Why: "They take packets of pods before portald, and reserve their TCP ports, on which portald then cannot listen " +
			"(10048 or 10013, while netstat shows no listener). They outlive kube-proxy.",
		Do:  "stop kube-proxy, then Get-HnsPolicyList | Remove-HnsPolicyList, before their network is removed",
		run: noBalancers,
	}, {
		Name: "windows-dynamic-ports", Severity: Warning, System: windows,
		What: "Windows' range of dynamic ports has NodePorts in it",
		Why: "Hyper-V, WinNAT and HNS reserve blocks of this range at each start, and programs take ports from it: a " +
			"NodePort may be unavailable at any time.",
		Do:  "netsh interface ipv4 set dynamicport tcp start=49152 num=16384, the same for udp, and a reboot",
		run: dynamicIsAbove,
	}}
}

// noBalancers finds load balancers at the frontends of Services, and is less worried about others: they may be those of
// a proxy for other Services.
func noBalancers(f *Facts) result {
	if f.Balancers.Err != nil {
		return unknown(f.Balancers.Err)
	}
	out := result{ok: "HNS has no load balancers"}
	var others []hns.LoadBalancer
	for _, l := range f.Balancers.Value {
		if name := f.takenBy(l); name != "" {
			out.problems = append(out.problems, problem{seen: fmt.Sprintf("HNS load balancer %s, at %s", l, name)})
			continue
		}
		others = append(others, l)
	}
	out = out.firstOf("load balancers")
	if len(others) > 0 {
		seen := fmt.Sprintf("%d HNS load balancers at no address of a Service that portald serves: %s", len(others),
			few(others))
		out.problems = append(out.problems, problem{seen: seen, severity: Note})
	}
	return out
}

// takenBy is a Service of which a load balancer takes a frontend; empty: of none that is known.
func (f *Facts) takenBy(l hns.LoadBalancer) string {
	all, _ := f.services()
	for _, s := range all {
		for _, fe := range s.Frontends {
			if l.Takes(s.Protocol, fe.Address) {
				return s.Name
			}
		}
	}
	return ""
}

// lastNodePort is the last one that Kubernetes gives, unless the API server is configured otherwise.
const lastNodePort = 32767

func dynamicIsAbove(f *Facts) result {
	if f.Dynamic.Err != nil {
		return unknown(f.Dynamic.Err)
	}
	last := uint16(lastNodePort)
	all, _ := f.services()
	for _, s := range all {
		for _, fe := range s.Frontends {
			if fe.Kind == nodePort {
				last = max(last, fe.Address.Port())
			}
		}
	}
	out := result{ok: fmt.Sprintf("the dynamic ports are above %d", last)}
	for _, r := range f.Dynamic.Value {
		if r.First <= last {
			out.problems = append(out.problems, problem{
				seen: fmt.Sprintf("%s ports %d to %d; NodePorts are up to %d", r.Protocol, r.First, r.Last, last),
			})
		}
	}
	return out
}

// parseDynamic reads the range that netsh shows: two lines that end with a number, the first port and how many there
// are. Its words are translated.
func parseDynamic(text, protocol string) []DynamicPorts {
	var numbers []int
	for line := range strings.Lines(text) {
		words := strings.Fields(strings.ReplaceAll(line, ":", " "))
		if len(words) == 0 {
			continue
		}
		if n, err := strconv.Atoi(words[len(words)-1]); err == nil {
			numbers = append(numbers, n)
		}
	}
	const most = 1 << 16
	if len(numbers) != 2 || min(numbers[0], numbers[1]) < 1 || numbers[0] >= most || numbers[1] > most-numbers[0] {
		return nil
	}
	first, last := uint16(numbers[0]), uint16(numbers[0]+numbers[1]-1)
	return []DynamicPorts{{protocol, inet.PortRange{First: first, Last: last}}}
}

func noOverlay(f *Facts) result {
	if f.Networks.Err != nil {
		return unknown(f.Networks.Err)
	}
	out := result{ok: fmt.Sprintf("none of the %d HNS networks is an overlay", len(f.Networks.Value))}
	for _, n := range f.Networks.Value {
		if n.IsOverlay() {
			out.problems = append(out.problems, problem{seen: fmt.Sprintf("HNS network %s", n)})
		}
	}
	return out
}

func runsElevated(f *Facts) result {
	switch {
	case f.Elevated.Err != nil:
		return unknown(f.Elevated.Err)
	case !f.Elevated.Value:
		return wrong("", "this process is not elevated")
	}
	return well("this process is elevated")
}

func serviceRuns(f *Facts) result {
	switch state := f.Service.Value; {
	case f.Service.Err != nil:
		return unknown(f.Service.Err)
	case state != "Running":
		return wrong("", "the service is %s", state)
	}
	return well("the service runs")
}

func portsAreNotExcluded(f *Facts) result {
	all, err := f.services()
	switch {
	case err != nil:
		return unknown(err)
	case f.Excluded.Err != nil:
		return unknown(f.Excluded.Err)
	}
	out := result{ok: fmt.Sprintf("no port of a Service is in the %d ranges that Windows keeps", len(f.Excluded.Value))}
	for _, s := range all {
		for _, fe := range s.Frontends {
			kept := func(r ExcludedPorts) bool { return r.Protocol == s.Protocol && r.Contains(fe.Address.Port()) }
			if slices.ContainsFunc(f.Excluded.Value, kept) {
				out.problems = append(out.problems, problem{seen: fmt.Sprintf("%s/%s of %s", fe.Address, s.Protocol, s.Name)})
			}
		}
	}
	return out.firstOf("frontends")
}

// parseExcluded reads the ranges that netsh lists: lines with the first and the last port. Its words are translated.
func parseExcluded(text, protocol string) (out []ExcludedPorts) {
	for line := range strings.Lines(text) {
		s := ExcludedPorts{Protocol: protocol}
		if n, _ := fmt.Sscan(line, &s.First, &s.Last); n == 2 && s.First <= s.Last {
			out = append(out, s)
		}
	}
	return out
}
