package bed

import "testing"

// Mode is one pair of proxy mode and rule writer, with the flags that select it.
type Mode struct {
	Name   string
	Kernel bool // the kernel forwards all Services without a mode annotation
	Args   []string
}

// PodRanges is the flag with the pod address ranges.
const PodRanges = "--cluster-cidr=10.244.0.0/16,fd00:10:244::/48"

// Modes lists all modes that the kernel of the test machine supports.
func Modes() []Mode {
	if InVM {
		return []Mode{
			{"userspace by IPVS", false, []string{"--writer=ipvs", PodRanges}},
			{"IPVS", true, []string{"--proxy-mode=ipvs", PodRanges}},
		}
	}
	return []Mode{
		{"userspace by iptables", false, nil},
		{"userspace by nftables", false, []string{"--writer=nftables"}},
		{"iptables", true, []string{"--proxy-mode=iptables", PodRanges}},
		{"nftables", true, []string{"--proxy-mode=nftables", "--nodeport-addresses=0.0.0.0/0,::/0", PodRanges}},
	}
}

// EachMode runs a test in every mode, each with its own network.
func EachMode(t *testing.T, test func(b *Bed, m Mode)) {
	for _, m := range Modes() {
		t.Run(m.Name, func(t *testing.T) { test(New(t), m) })
	}
}
