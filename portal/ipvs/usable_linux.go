package ipvs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/moby/ipvs"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform"
)

// Usable tells what the kernel lacks for these Options, if anything, and what to do about it. It tries each facility,
// which loads its module where the kernel may load modules, and leaves nothing behind.
func Usable(o Options) error {
	if err := o.complete(); err != nil {
		return err
	}
	n := newNames(o.Prefix)
	alone, err := probesAlone(n.prefix)
	if err != nil {
		return err
	}
	defer alone.Close()
	for _, probe := range []func() error{
		family, func() error { return scheduler(o.Scheduler) }, func() error { return dummy(n.device) },
		func() error { return sets(n.prefix + "-PROBE") }, setMatch, setSocket,
	} {
		if err := probe(); err != nil {
			return err
		}
	}
	return nil
}

// probesAlone waits until no other process of this network namespace probes: a predecessor and a successor use the same
// names. An abstract socket is the lock: it belongs to the namespace, and goes with the process.
func probesAlone(prefix string) (net.Listener, error) {
	for end := time.Now().Add(loadTime); ; time.Sleep(10 * time.Millisecond) {
		lock, err := net.Listen("unix", "@portald-ipvs-probe-"+prefix)
		if err == nil {
			return lock, nil
		}
		if !errors.Is(err, unix.EADDRINUSE) || time.Now().After(end) {
			return nil, fmt.Errorf("wait for another portald that tries what the kernel has: %w", err)
		}
	}
}

// lacks is the error of a kernel without something.
func lacks(what, module string, err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("use %s: %w: it takes root in the host's own network namespace", what, err)
	}
	return fmt.Errorf("the kernel has no %s (%w): load its module (modprobe %s), or set ipvs.fallback: iptables",
		what, err, module)
}

// loadTime bounds modprobe.
const loadTime = 10 * time.Second

func family() error {
	if _, err := netlink.GenlFamilyGet("IPVS"); err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), loadTime)
	defer cancel()
	platform.Run(ctx, "modprobe", []string{"ip_vs"}, nil) // what came of it is seen below
	if _, err := netlink.GenlFamilyGet("IPVS"); err != nil {
		return lacks("IPVS", "ip_vs", err)
	}
	return nil
}

// probeMark is the mark of packets for a virtual server that is there for a moment, without endpoints.
const probeMark = 0x70747664

func scheduler(name string) error {
	balancer, err := ipvs.New("")
	if err != nil {
		return fmt.Errorf("open IPVS: %w", err)
	}
	defer balancer.Close()
	probe := &ipvs.Service{FWMark: probeMark, SchedName: name, AddressFamily: unix.AF_INET, Netmask: 0xffffffff}
	err = balancer.NewService(probe)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return lacks("IPVS scheduler "+name, "ip_vs_"+name, err)
	}
	return failed(balancer.DelService(probe), "remove a virtual server made to try scheduler %s", name)
}

func dummy(device string) error {
	if _, err := netlink.LinkByName(device); err == nil {
		return nil
	}
	link := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: device}}
	if err := netlink.LinkAdd(link); err != nil {
		return lacks("link type dummy", "dummy", err)
	}
	return failed(netlink.LinkDel(link), "remove device %s", device)
}

func sets(name string) error {
	if _, _, err := netlink.IpsetProtocol(); err != nil {
		return lacks("ipset", "ip_set", err)
	}
	modules := map[string]string{
		byAddress: "ip_set_hash_ip", byFrontend: "ip_set_hash_ipport",
		byNet: "ip_set_hash_net", byClient: "ip_set_hash_ipportip", byClientNet: "ip_set_hash_ipportnet",
	}
	for _, typ := range []string{byAddress, byNet, byFrontend, byClient, byClientNet} {
		err := netlink.IpsetCreate(name, typ, netlink.IpsetCreateOptions{Replace: true})
		if errors.Is(err, unix.EEXIST) { // of another type: a portald that was killed has left it
			_ = netlink.IpsetDestroy(name) // what comes of it is seen below
			err = netlink.IpsetCreate(name, typ, netlink.IpsetCreateOptions{Replace: true})
		}
		if err != nil {
			return lacks("ipset type "+typ, modules[typ], err)
		}
		if err := netlink.IpsetDestroy(name); err != nil {
			return fmt.Errorf("destroy set %s: %w", name, err)
		}
	}
	return nil
}

// Of nf_tables' requests about matches of iptables, which the legacy variant has too.
const (
	compatGet      = 11 << 8 // NFNL_SUBSYS_NFT_COMPAT, NFNL_MSG_COMPAT_GET
	compatName     = 1
	compatRevision = 2
	compatType     = 3
)

// setMatch looks for the match of iptables that looks into sets. A kernel that cannot be asked is believed to have it.
func setMatch() error {
	request := nl.NewNetlinkRequest(compatGet, unix.NLM_F_ACK)
	request.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_INET})
	request.AddData(nl.NewRtAttr(compatName, nl.ZeroTerminated("set")))
	request.AddData(nl.NewRtAttr(compatRevision, binary.BigEndian.AppendUint32(nil, 1)))
	request.AddData(nl.NewRtAttr(compatType, binary.BigEndian.AppendUint32(nil, 0)))
	if _, err := request.Execute(unix.NETLINK_NETFILTER, 0); errors.Is(err, unix.ENOENT) {
		return lacks("iptables match set", "xt_set", err)
	}
	return nil
}

// setSocket opens a socket as iptables does to ask for a set.
func setSocket() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return fmt.Errorf("open a raw socket, by which iptables looks into sets of addresses: %w: portald needs the "+
			"capability NET_RAW with IPVS (deploy/kustomize/ipvs), or set ipvs.fallback: iptables", err)
	}
	return unix.Close(fd)
}
