package platform

import (
	"os"
	"slices"
	"testing"

	"github.com/portald/portald/platform/inet"
)

func TestReservedPorts(t *testing.T) {
	inNamespace(t)
	for _, text := range []string{"", "11211", "16443,20000-20010,65535"} {
		want, err := inet.ParsePortRanges(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_local_reserved_ports", []byte(text+"\n"), 0); err != nil {
			t.Fatal(err)
		}
		if got, err := ReservedPorts(); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
