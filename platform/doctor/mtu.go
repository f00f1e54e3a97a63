package doctor

import (
	"fmt"
	"maps"
	"slices"
)

func mtuChecks() []Check {
	return []Check{{
		Name: "mtu-tunnel", Severity: Warning, System: linux, What: "a tunnel whose packets do not fit into the uplink",
		Why: "Large packets to pods of other nodes are fragmented, or vanish: connections open, and then hang " +
			"at the first large answer.",
		Do: "ip link set TUNNEL mtu UPLINK-MINUS-OVERHEAD; set the MTU in the CNI", run: tunnelsFit,
	}, {
		Name: "mtu-pods", Severity: Warning, System: linux,
		What: "a pod interface with a larger MTU than the uplink, or a smaller one than those of most pods",
		Why: "Packets of pods are too large for the path. If the ICMP message that says so is dropped, " +
			"connections hang at the first large packet; a bridge drops packets that are too large for its " +
			"other ports without a message, and so does the host's end of a pod's interface if the pod's end has a " +
			"larger MTU.",
		Do: "ip link show; set the MTU in the CNI; a test: ping -M do -s 1472 ADDRESS", run: podsFit,
	}}
}

// overhead has the bytes that a tunnel adds to a packet, by the kind of its interface, over IPv4.
func overhead() map[string]int {
	return map[string]int{"vxlan": 50, "geneve": 50, "ipip": 20, "sit": 20, "gre": 24, "gretap": 38, "wireguard": 60}
}

func tunnelsFit(f *Facts) result {
	uplink, err := f.uplink()
	if err != nil {
		return unknown(err)
	}
	out := result{ok: fmt.Sprintf("tunnels fit into %s (MTU %d)", uplink.Name, uplink.MTU)}
	for _, l := range f.Links.Value {
		if extra, tunnel := overhead()[l.Kind]; tunnel && l.Up && l.MTU+extra > uplink.MTU {
			out.problems = append(out.problems, problem{
				seen: fmt.Sprintf("%s (%s) has MTU %d, which makes %d with its headers; %s has %d", l.Name, l.Kind, l.MTU,
					l.MTU+extra, uplink.Name, uplink.MTU),
				do: fmt.Sprintf("ip link set %s mtu %d; set the MTU in the CNI", l.Name, uplink.MTU-extra),
			})
		}
	}
	return out
}

// uplink is the interface of a default route.
func (f *Facts) uplink() (Link, error) {
	if f.Links.Err != nil {
		return Link{}, f.Links.Err
	}
	if f.Routes.Err != nil {
		return Link{}, f.Routes.Err
	}
	for _, ipv6 := range []bool{false, true} {
		for _, l := range f.Links.Value {
			if l.Name != "" && l.Name == f.Routes.Value.Default[ipv6].Device {
				return l, nil
			}
		}
	}
	return Link{}, fmt.Errorf("there is no default route whose MTU could be compared")
}

func podsFit(f *Facts) result {
	uplink, err := f.uplink()
	if err != nil {
		return unknown(err)
	}
	byName := map[string]Link{}
	for _, l := range f.Links.Value {
		byName[l.Name] = l
	}
	out := result{ok: fmt.Sprintf("interfaces of pods fit into %s (MTU %d)", uplink.Name, uplink.MTU)}
	usual, of := usualMTU(f.Links.Value)
	for _, l := range f.Links.Value {
		if !l.Up || l.Name == uplink.Name || l.Kind != "veth" && l.Kind != "bridge" && l.Kind != "netkit" {
			continue
		}
		out.problems = append(out.problems, l.tooLarge(byName[l.Master], uplink)...)
		if l.Kind != "bridge" && l.MTU < usual {
			out.problems = append(out.problems, problem{
				seen: fmt.Sprintf("%s (%s) has MTU %d, %d other interfaces of pods have %d", l.Name, l.Kind, l.MTU, of, usual),
				do: fmt.Sprintf("ip link show in the pod: if its end has more than %d, ip link set %s mtu %d", l.MTU, l.Name,
					usual),
			})
		}
	}
	return out.firstOf("interfaces")
}

// usualMTU is the MTU of most interfaces of pods, and how many have it; 0: there is none of most.
func usualMTU(links []Link) (mtu, of int) {
	with, all := map[int]int{}, 0
	for _, l := range links {
		if l.Up && (l.Kind == "veth" || l.Kind == "netkit") {
			all++
			if with[l.MTU]++; with[l.MTU] > of {
				mtu, of = l.MTU, with[l.MTU]
			}
		}
	}
	if of < 2 || 2*of <= all {
		return 0, 0
	}
	return mtu, of
}

// tooLarge compares an interface of pods with its bridge, and with the uplink.
func (l Link) tooLarge(bridge, uplink Link) []problem {
	for _, next := range []Link{bridge, uplink} {
		if next.MTU > 0 && l.MTU > next.MTU {
			return []problem{{
				seen: fmt.Sprintf("%s (%s) has MTU %d, %s has %d", l.Name, l.Kind, l.MTU, next.Name, next.MTU),
				do:   fmt.Sprintf("ip link set %s mtu %d; set the MTU in the CNI", l.Name, next.MTU),
			}}
		}
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
