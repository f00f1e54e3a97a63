package platform

import (
	"os"
	"testing"
)

// Each family has its own setting, and each network namespace.
func TestForwarding(t *testing.T) {
	inNamespace(t)
	files := map[bool]string{false: "/proc/sys/net/ipv4/ip_forward", true: "/proc/sys/net/ipv6/conf/all/forwarding"}
	set := func(ipv6 bool, value string) {
		t.Helper()
		if err := os.WriteFile(files[ipv6], []byte(value), 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []struct{ v4, v6 bool }{{false, false}, {true, false}, {true, true}, {false, true}} {
		for ipv6, on := range map[bool]bool{false: want.v4, true: want.v6} {
			value := "0"
			if on {
				value = "1"
			}
			set(ipv6, value)
		}
		v4, err4 := Forwarding(false)
		v6, err6 := Forwarding(true)
		if err4 != nil || err6 != nil || v4 != want.v4 || v6 != want.v6 {
			t.Errorf("IPv4 %v %v, IPv6 %v %v, want %v", v4, err4, v6, err6, want)
		}
	}
}
