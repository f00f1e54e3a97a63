package bed

import "testing"

// Mode is one pair of who carries and who writes the rules, as flags ask for it.
type Mode struct {
	Name   string
	Kernel bool // Services are carried by the kernel unless they say otherwise
	Args   []string
}

// PodRanges tell portald who is a pod.
const PodRanges = "--cluster-cidr=10.244.0.0/16,fd00:10:244::/48"

// Modes are all that the kernel has which the tests run on.
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

// EachMode runs a test in every mode, each in a network of its own.
func EachMode(t *testing.T, test func(b *Bed, m Mode)) {
	for _, m := range Modes() {
		t.Run(m.Name, func(t *testing.T) { test(New(t), m) })
	}
}
