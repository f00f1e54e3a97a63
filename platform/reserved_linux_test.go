package platform

import (
	"os"
	"slices"
	"testing"
)

func TestReservedPorts(t *testing.T) {
	inNamespace(t)
	for text, want := range map[string][]PortSpan{
		"":                        nil,
		"11211":                   {{11211, 11211}},
		"16443,20000-20010,65535": {{16443, 16443}, {20000, 20010}, {65535, 65535}},
	} {
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_local_reserved_ports", []byte(text+"\n"), 0); err != nil {
			t.Fatal(err)
		}
		if got, err := ReservedPorts(); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"x", "1-", "9-8", "70000", "1,,2"} {
		if got, err := parseSpans(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
