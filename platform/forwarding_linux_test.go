package platform

import (
	"os"
	"testing"

	"github.com/portald/portald/platform/inet"
)

// Each family has its own setting, and each network namespace.
func TestForwarding(t *testing.T) {
	inNamespace(t)
	files := map[inet.Family]string{
		inet.IPv4: "/proc/sys/net/ipv4/ip_forward", inet.IPv6: "/proc/sys/net/ipv6/conf/all/forwarding",
	}
	set := func(family inet.Family, value string) {
		t.Helper()
		if err := os.WriteFile(files[family], []byte(value), 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []struct{ v4, v6 bool }{{false, false}, {true, false}, {true, true}, {false, true}} {
		for family, on := range map[inet.Family]bool{inet.IPv4: want.v4, inet.IPv6: want.v6} {
			value := "0"
			if on {
				value = "1"
			}
			set(family, value)
		}
		v4, err4 := Forwarding(inet.IPv4)
		v6, err6 := Forwarding(inet.IPv6)
		if err4 != nil || err6 != nil || v4 != want.v4 || v6 != want.v6 {
			t.Errorf("IPv4 %v %v, IPv6 %v %v, want %v", v4, err4, v6, err6, want)
		}
	}
}
