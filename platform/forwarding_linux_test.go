package platform

import (
	"os"
	"testing"

	"github.com/portald/portald/proxy/service"
)

// Each family has its own setting, and each network namespace.
func TestForwarding(t *testing.T) {
	inNamespace(t)
	files := map[service.IPFamily]string{
		service.IPv4: "/proc/sys/net/ipv4/ip_forward", service.IPv6: "/proc/sys/net/ipv6/conf/all/forwarding",
	}
	set := func(family service.IPFamily, value string) {
		t.Helper()
		if err := os.WriteFile(files[family], []byte(value), 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []struct{ v4, v6 bool }{{false, false}, {true, false}, {true, true}, {false, true}} {
		for family, on := range map[service.IPFamily]bool{service.IPv4: want.v4, service.IPv6: want.v6} {
			value := "0"
			if on {
				value = "1"
			}
			set(family, value)
		}
		v4, err4 := Forwarding(service.IPv4)
		v6, err6 := Forwarding(service.IPv6)
		if err4 != nil || err6 != nil || v4 != want.v4 || v6 != want.v6 {
			t.Errorf("IPv4 %v %v, IPv6 %v %v, want %v", v4, err4, v6, err6, want)
		}
	}
}
