package netsh

import (
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/windows"
)

// firstBuffer is the size that Microsoft advises for the first call of GetAdaptersAddresses.
const firstBuffer = 15000

const adapterFlags = windows.GAA_FLAG_SKIP_ANYCAST | windows.GAA_FLAG_SKIP_MULTICAST | windows.GAA_FLAG_SKIP_DNS_SERVER

// HostInterfaces reads the interfaces of this host.
func HostInterfaces() ([]Interface, error) {
	size := uint32(firstBuffer)
	for {
		buffer := make([]uint64, (size+7)/8) // aligned as the structures in it
		size = uint32(8 * len(buffer))
		first := (*windows.IpAdapterAddresses)(unsafe.Pointer(&buffer[0]))
		switch err := windows.GetAdaptersAddresses(windows.AF_UNSPEC, adapterFlags, 0, first, &size); {
		case err == windows.ERROR_BUFFER_OVERFLOW: // size is the size needed now
		case err == windows.ERROR_NO_DATA:
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("read the host's interfaces: %w", err)
		default:
			return list(first), nil
		}
	}
}

func list(first *windows.IpAdapterAddresses) (out []Interface) {
	for a := first; a != nil; a = a.Next {
		found := Interface{
			Name: windows.UTF16PtrToString(a.FriendlyName), Index: int(max(a.IfIndex, a.Ipv6IfIndex)), LUID: a.Luid,
		}
		for u := a.FirstUnicastAddress; u != nil; u = u.Next {
			if addr, ok := netip.AddrFromSlice(u.Address.IP()); ok {
				prefix := netip.PrefixFrom(addr.Unmap(), int(u.OnLinkPrefixLength))
				found.Addresses = append(found.Addresses, Address{prefix, stateOf(u.DadState)})
			}
		}
		out = append(out, found)
	}
	return out
}

func stateOf(dad int32) AddressState {
	switch dad {
	case windows.IpDadStatePreferred, windows.IpDadStateDeprecated:
		return Usable
	case windows.IpDadStateDuplicate:
		return Duplicate
	}
	return Tentative
}
