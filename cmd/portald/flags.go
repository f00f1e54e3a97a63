package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/userspace"
)

// options are the flags, and after complete what they mean.
type options struct {
	manifests         []string
	hostname          string
	connectionLog     string
	connectionFormat  string
	healthAddress     string
	metricsAddress    string
	hardFail          bool
	nodePortAddresses []string
	localhost         bool
	externalIPs       []string
	nodeIP            []string
	connectTimeouts   []time.Duration
	halfClose         time.Duration
	idle              time.Duration
	udpIdle           time.Duration
	udpSessions       int
	drain             time.Duration
	syncPeriod        time.Duration
	minSync           time.Duration
	logFormat         string
	logLevel          string
	proxyPorts        string
	variant           string

	log       *logrus.Logger
	ports     userspace.PortRange
	nodePorts []netip.Prefix
	external  []netip.Prefix
	nodeIPs   []netip.Addr
}

// section is some flags that belong together, as --help shows them.
type section struct {
	title string
	flags *pflag.FlagSet
}

func newSection(title string, define func(*pflag.FlagSet)) section {
	f := pflag.NewFlagSet(title, pflag.ContinueOnError)
	f.SortFlags = false
	define(f)
	return section{title, f}
}

// daemonFlags are those of the daemon alone. Those that kube-proxy has too bear its names and, where not said
// otherwise, its defaults.
func (o *options) daemonFlags() []section {
	return []section{
		newSection("Where Services come from", func(f *pflag.FlagSet) {
			f.StringArrayVar(&o.manifests, "manifests", nil, "`PATH` of Service, EndpointSlice and Node manifests: a file, a folder, or - for standard input; repeatable. Files are followed as they change")
			f.StringVar(&o.hostname, "hostname-override", "", "`NAME` of this node, as EndpointSlices give it; default: the host's name, in lower case")
		}),
		newSection("Connection records", func(f *pflag.FlagSet) {
			f.StringVar(&o.connectionLog, "connection-log", "", "write one record for each connection and UDP session to this `FILE`, - for standard error; default: none")
			f.StringVar(&o.connectionFormat, "connection-log-format", "text", "`FORMAT` of the records: json or text")
		}),
		newSection("Health and metrics", func(f *pflag.FlagSet) {
			f.StringVar(&o.healthAddress, "healthz-bind-address", "0.0.0.0:10256", "`ADDRESS` of the health server (/healthz, /livez); empty: none")
			f.StringVar(&o.metricsAddress, "metrics-bind-address", "127.0.0.1:10249", "`ADDRESS` of the metrics server (/metrics, /proxyMode); empty: none")
			f.BoolVar(&o.hardFail, "bind-address-hard-fail", false, "end when one of these addresses cannot be bound, in place of trying again")
		}),
		newSection("Frontends", func(f *pflag.FlagSet) {
			f.StringSliceVar(&o.nodePortAddresses, "nodeport-addresses", nil, "`CIDRS` of the node's addresses that NodePorts are served on; default: all")
			f.BoolVar(&o.localhost, "iptables-localhost-nodeports", true, "serve NodePorts on 127.0.0.1 and ::1 too")
			f.StringSliceVar(&o.externalIPs, "external-ip-cidrs", nil, "`CIDRS` that spec.externalIPs may claim addresses of; default: none, external IPs are off")
			f.StringSliceVar(&o.nodeIP, "node-ip", nil, "`ADDRESS` of this node, one for each family: lead portals there, in place of the address of the interface that a connection came in by. For CNIs whose pod interfaces have none on the node's side")
		}),
		newSection("Connections", func(f *pflag.FlagSet) {
			f.DurationSliceVar(&o.connectTimeouts, "connect-timeouts", splice.DefaultConnectTimeouts(), "`TIMES` that the dials of one connection may take, each to another endpoint")
			f.DurationVar(&o.halfClose, "half-close-timeout", splice.DefaultHalfClose, "end a connection after this `TIME` without a byte, once one side has ended its direction")
			f.DurationVar(&o.idle, "idle-timeout", 0, "end a connection after this `TIME` without a byte; 0: never")
			f.DurationVar(&o.udpIdle, "udp-timeout", splice.DefaultUDPIdle, "end a UDP session after this `TIME` without a datagram")
			f.IntVar(&o.udpSessions, "udp-max-sessions", splice.DefaultUDPSessions, "`NUMBER` of UDP sessions that one service port may have at a time; the least recently used makes room")
			f.DurationVar(&o.drain, "drain-timeout", 30*time.Second, "`TIME` that open connections have to end by themselves after SIGTERM; a second signal cuts them at once")
		}),
		newSection("Keeping the host in step", func(f *pflag.FlagSet) {
			f.DurationVar(&o.syncPeriod, "iptables-sync-period", 30*time.Second, "`TIME` after which the host's rules are looked at again for changes by others")
			f.DurationVar(&o.minSync, "iptables-min-sync-period", 100*time.Millisecond, "least `TIME` between two rounds of changes (kube-proxy: 1s); what comes meanwhile is applied together")
		}),
	}
}

// hostFlags say what is used of the host; cleanup needs them too.
func (o *options) hostFlags() []section {
	return []section{
		newSection("The host", func(f *pflag.FlagSet) {
			f.StringVar(&o.proxyPorts, "proxy-port-range", userspace.DefaultPortRange().String(), "local ports for the listeners, a `RANGE` FIRST-LAST that nothing else uses")
			f.StringVar(&o.variant, "iptables-variant", "", "`KIND` of iptables: nft or legacy; default: what the host calls iptables, for cleanup: both")
		}),
		newSection("The daemon's own log, on standard error", func(f *pflag.FlagSet) {
			f.StringVar(&o.logFormat, "log-format", "text", "`FORMAT`: text or json")
			f.StringVar(&o.logLevel, "log-level", "info", "`LEVEL`: error, warn, info or debug")
		}),
	}
}

// complete checks all flags and names every mistake at once.
func (o *options) complete() error {
	var errs []error
	bad := func(flag string, value any, advice string) {
		errs = append(errs, fmt.Errorf("--%s %v: %s", flag, value, advice))
	}
	if len(o.manifests) == 0 {
		errs = append(errs, errors.New("--manifests is missing: name a file or folder of manifests, or - for standard input"))
	}
	if !slices.Contains([]string{"json", "text"}, o.connectionFormat) {
		bad("connection-log-format", o.connectionFormat, "must be json or text")
	}
	for flag, address := range map[string]string{"healthz-bind-address": o.healthAddress, "metrics-bind-address": o.metricsAddress} {
		if _, _, err := net.SplitHostPort(address); address != "" && err != nil {
			bad(flag, address, "must be ADDRESS:PORT, as in 0.0.0.0:10256")
		}
	}
	o.nodePorts = prefixes("nodeport-addresses", o.nodePortAddresses, bad)
	o.external = prefixes("external-ip-cidrs", o.externalIPs, bad)
	for _, s := range o.nodeIP {
		addr, err := netip.ParseAddr(strings.TrimSpace(s))
		if err != nil || addr.IsUnspecified() || addr.IsLoopback() {
			bad("node-ip", s, "must be an address of this node, as in 192.0.2.7")
		}
		o.nodeIPs = append(o.nodeIPs, addr)
	}
	if len(o.connectTimeouts) == 0 {
		bad("connect-timeouts", "''", "must name at least one time, as in 250ms,500ms,1s,2s")
	}
	for _, t := range o.connectTimeouts {
		if t <= 0 {
			bad("connect-timeouts", t, "each must be more than 0")
		}
	}
	for flag, t := range map[string]time.Duration{"half-close-timeout": o.halfClose, "udp-timeout": o.udpIdle, "iptables-sync-period": o.syncPeriod} {
		if t <= 0 {
			bad(flag, t, "must be more than 0")
		}
	}
	for flag, t := range map[string]time.Duration{"idle-timeout": o.idle, "drain-timeout": o.drain, "iptables-min-sync-period": o.minSync} {
		if t < 0 {
			bad(flag, t, "must not be negative")
		}
	}
	if o.udpSessions < 1 {
		bad("udp-max-sessions", o.udpSessions, "must be at least 1")
	}
	if err := o.completeHost(); err != nil {
		errs = append(errs, err)
	}
	if err := o.nameNode(); err != nil {
		errs = append(errs, err)
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// completeHost checks what every command needs, and makes the logger.
func (o *options) completeHost() error {
	var errs []error
	ports, err := portRange(o.proxyPorts)
	if err != nil {
		errs = append(errs, fmt.Errorf("--proxy-port-range %s: %w", o.proxyPorts, err))
	}
	o.ports = ports
	if !slices.Contains([]string{"", "nft", "legacy"}, o.variant) {
		errs = append(errs, fmt.Errorf("--iptables-variant %s: must be nft or legacy, or be left out", o.variant))
	}
	o.log = logrus.New()
	switch o.logFormat {
	case "text":
		o.log.SetFormatter(&logrus.TextFormatter{FullTimestamp: true, TimestampFormat: "2006-01-02T15:04:05.000Z07:00"})
	case "json":
		o.log.SetFormatter(&logrus.JSONFormatter{TimestampFormat: time.RFC3339Nano})
	default:
		errs = append(errs, fmt.Errorf("--log-format %s: must be text or json", o.logFormat))
	}
	level, err := logrus.ParseLevel(o.logLevel)
	if err != nil {
		errs = append(errs, fmt.Errorf("--log-level %s: must be error, warn, info or debug", o.logLevel))
	}
	o.log.SetLevel(level)
	return errors.Join(errs...)
}

// nameNode finds the node's name as kube-proxy does.
func (o *options) nameNode() error {
	name := o.hostname
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("ask for the host's name: %w: give --hostname-override", err)
		}
		name = host
	}
	if o.hostname = strings.ToLower(strings.TrimSpace(name)); o.hostname == "" {
		return errors.New("--hostname-override: must not be blank")
	}
	return nil
}

func prefixes(flag string, from []string, bad func(flag string, value any, advice string)) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range from {
		p, err := netip.ParsePrefix(strings.TrimSpace(s))
		if err != nil {
			bad(flag, s, "must be a CIDR, as in 192.0.2.0/24 or 2001:db8::/64")
			continue
		}
		out = append(out, p.Masked())
	}
	return out
}

func portRange(s string) (userspace.PortRange, error) {
	first, last, _ := strings.Cut(s, "-")
	a, err1 := strconv.ParseUint(first, 10, 16)
	b, err2 := strconv.ParseUint(last, 10, 16)
	if err1 != nil || err2 != nil || a == 0 || b < a {
		return userspace.PortRange{}, errors.New("must be FIRST-LAST, two ports from 1 to 65535, as in 11000-29999")
	}
	return userspace.PortRange{First: uint16(a), Last: uint16(b)}, nil
}
