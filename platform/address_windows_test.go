package platform

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"golang.org/x/sys/windows"
)

// Windows refuses an interface that it does not have by a number, and Wine has no such call.
func TestChangeAddress(t *testing.T) {
	for _, a := range []string{"192.0.2.77", "2001:db8::77"} {
		err := ChangeAddress(1<<63+4711, netip.MustParseAddr(a), true)
		var number syscall.Errno
		if !errors.Is(err, errors.ErrUnsupported) && !errors.As(err, &number) {
			t.Errorf("%s: %v, want a number, or that there is no such call", a, err)
		}
		t.Logf("%s: %v", a, err)
	}
}

func TestFillAddress(t *testing.T) {
	var row windows.MibUnicastIpAddressRow
	fillAddress(&row, 7, netip.MustParseAddr("192.0.2.77"))
	v4 := windows.RawSockaddrInet6{Family: windows.AF_INET, Flowinfo: 77<<24 | 2<<16 | 192}
	if row.Address != v4 || row.OnLinkPrefixLength != 32 || row.SkipAsSource != 1 || row.InterfaceLuid != 7 {
		t.Errorf("IPv4: %+v", row)
	}
	fillAddress(&row, 7, netip.MustParseAddr("2001:db8::77"))
	if row.Address.Addr != netip.MustParseAddr("2001:db8::77").As16() || row.OnLinkPrefixLength != 128 {
		t.Errorf("IPv6: %+v", row)
	}
}
