package config

import (
	"strings"
	"testing"

	"github.com/portald/portald/portal/service"
)

func TestDefaultsOnWindows(t *testing.T) {
	for _, args := range [][]string{{"--manifests=x"}, {"--kubeconfig=x", "--proxy-mode=userspace"},
		{"--kubeconfig=x", "--writer=netsh", "--on-exit=remove"}} {
		c, warnings, err := completeOn(t, "windows", args...)
		check(t, err)
		if c.Mode != service.ModeUserspace || c.Writer != "netsh" || c.Settings.OnExit != onExitRemove || len(warnings) > 0 {
			t.Errorf("%q: %v %v %v, %q", args, c.Mode, c.Writer, c.Settings.OnExit, warnings)
		}
	}
}

// A setting that a system cannot apply is refused in one line, which says what works there.
func TestRefusedBySystem(t *testing.T) {
	const linux = "needs the kernel of Linux; write userspace, which serves the same Services on windows"
	for _, c := range []struct{ system, flag, want string }{
		{"windows", "--proxy-mode=iptables", linux}, {"windows", "--proxy-mode=nftables", linux},
		{"windows", "--proxy-mode=ipvs", linux}, {"windows", "--proxy-mode=kernelspace", "write userspace, or"},
		{"linux", "--proxy-mode=kernelspace", "write userspace, or on Linux iptables, nftables or ipvs"},
		{"windows", "--writer=iptables", "is for Linux; omit it, or write netsh"},
		{"windows", "--writer=nftables", "is for Linux; omit it, or write netsh"},
		{"linux", "--writer=netsh", "is for Windows; write iptables, nftables or ipvs, or print with portald render"},
		{"windows", "--on-exit=kernel", "needs a mode of the kernel, which portald does not have on Windows; write remove"},
		{"windows", "--client-address=transparent", "needs Linux, which leads replies back to portald; write node or"},
		{"windows", "--detect-local-mode=BridgeInterface --pod-bridge-interface=x", "write ClusterCIDR or NodeCIDR"},
		{"windows", "--detect-local-mode=InterfaceNamePrefix --pod-interface-name-prefix=x", "ClusterCIDR or NodeCIDR"},
	} {
		_, _, err := completeOn(t, c.system, append(strings.Fields(c.flag), "--manifests=x")...)
		name, value, _ := strings.Cut(strings.Fields(c.flag)[0], "=")
		if err == nil || !strings.HasPrefix(err.Error(), name+" "+value+": ") || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s on %s: %v", c.flag, c.system, err)
		}
	}
}

// Rules that are only rendered may be for any system.
func TestAnySystem(t *testing.T) {
	for flags, want := range map[string]string{
		"linux --writer=netsh": "netsh", "windows --proxy-mode=ipvs": "ipvs", "windows --writer=nftables": "nftables",
		"windows": "netsh", "linux": "iptables", "linux --writer=netsh --proxy-mode=iptables": "",
		"windows --proxy-mode=kernelspace": "",
	} {
		args := strings.Fields(flags)
		f := newFlags(args[0])
		f.AnySystem = true
		check(t, allFlags(f).Parse(append(args[1:], "--manifests=x")))
		c, _, err := f.Complete()
		if (err == nil) != (want != "") || err == nil && c.Writer != want {
			t.Errorf("%s: %+v, %v", flags, c, err)
		}
	}
}

// The flags of kube-proxy's DaemonSet are accepted on Windows, and each that has no effect is named.
func TestFlagsWithoutEffectOnWindows(t *testing.T) {
	_, warnings, err := completeOn(t, "windows", "--kubeconfig=x", "--network-name=flannel.4096", "--source-vip=10.0.0.1",
		"--enable-dsr=true", "--root-hnsendpoint-name=cbr0", "--forward-healthcheck-vip", "--conntrack-min=1",
		"--oom-score-adj=1", "--masquerade-all", "--proxy-port-range=1-2", "--node-ip=192.0.2.1", "--iptables-variant=nft",
		"--service-cidrs=10.96.0.0/12", "--ipvs-scheduler=lc")
	check(t, err)
	all := strings.Join(warnings, "\n")
	if len(warnings) != 13 {
		t.Errorf("%d warnings:\n%s", len(warnings), all)
	}
	for _, want := range []string{
		"--network-name has no effect: for HNS, which portald does not program",
		"--source-vip has no effect: for HNS, which portald does not program; endpoints see the node's address",
		"--conntrack-min has no effect: it is a setting of Linux", "--oom-score-adj has no effect: it is a setting of Linux",
		"--masquerade-all has no effect: the writer netsh masquerades nothing",
		"--proxy-port-range has no effect: with the writer netsh listeners have the ports of the frontends",
		"--node-ip has no effect: with the writer netsh listeners have the addresses of the frontends",
		"--iptables-variant has no effect: the writer netsh does not use iptables",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("nothing like %q in\n%s", want, all)
		}
	}
}

// The interface is named by the setting, by kube-proxy's variable, or is kube-proxy's default.
func TestInterfaceName(t *testing.T) {
	expect := func(want string, args ...string) {
		t.Helper()
		c, _, err := completeOn(t, "windows", append([]string{"--kubeconfig=x"}, args...)...)
		check(t, err)
		if c.Interface != want {
			t.Errorf("%q: interface %q, want %q", args, c.Interface, want)
		}
	}
	t.Setenv("INTERFACE_TO_ADD_SERVICE_IP", "")
	expect("vEthernet (HNS Internal NIC)")
	t.Setenv("INTERFACE_TO_ADD_SERVICE_IP", "Ethernet 2")
	expect("Ethernet 2")
	expect("vEthernet (nat)", "--interface-name=vEthernet (nat)")

	c, warnings, err := completeOn(t, "linux", "--kubeconfig=x", "--interface-name=eth0")
	check(t, err)
	want := "--interface-name has no effect: for the writer netsh only"
	if len(warnings) != 1 || !strings.Contains(warnings[0], want) {
		t.Errorf("%+v, warnings %q, want %q", c.Interface, warnings, want)
	}
}
