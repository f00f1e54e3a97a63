package service

import (
	"slices"
	"time"
)

// maxRetries is a bound on mistakes.
const maxRetries = 15

// maxSample is a bound on mistakes.
const maxSample = 1_000_000

// AllSettings stands for all their names, where settings are listed by name.
const AllSettings = "all"

// Settings are all that a Service may set by annotations, in the order of the manual.
func Settings() []Setting {
	return slices.Concat(
		carrySettings(), balanceSettings(), retrySettings(), hedgeSettings(), replaySettings(), waitSettings(),
		connectionSettings(), fairSettings(), payloadSettings(),
	)
}

// SettingNames are their names in the order of the alphabet.
func SettingNames() (names []string) {
	for _, s := range Settings() {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return names
}

func carrySettings() []Setting {
	return []Setting{
		{
			Name: "mode",
			Value: Choice{
				Words: []string{ModeUserspace.String(), ModeKernel.String()},
				Set:   func(p *Port, word string) { p.Mode, _ = ParseMode(word) },
			},
			About: "whether the daemon or the kernel serves the Service; of the annotations below, those for " +
				"records and `algorithm` apply in both modes, `kernel-records` in kernel mode, and the others " +
				"in userspace mode",
		},
		{
			Name:  DebugUntil,
			Value: Moment{Part: func(p *Port) **time.Time { return &p.DebugUntil }},
			About: "until then, at most 24h ahead, [the daemon serves the Service](#debug-a-service-until-a-time), whatever " +
				"its mode is otherwise",
		},
		{
			Name: "connect-timeouts", Field: "connectTimeouts",
			Value: Times{
				// as in kube-proxy's old userspace mode
				Default: []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second},
				Most:    maxRetries + 1,
				Part:    func(p *Port) *[]time.Duration { return &p.Policy.ConnectTimeouts },
			},
			Help:     "timeouts of the dials of one connection, each to another endpoint: comma-separated `TIMES`",
			About:    "timeouts of the dials of one connection, each to another endpoint",
			InKernel: "clients dial an endpoint themselves, and wait as long as their systems do",
		},
		{
			Name: "retries", Field: "retries",
			Value: Count{Most: maxRetries, Set: func(p *Port, n int) { p.Policy.Dials = n + 1 }},
			Help: "`NUMBER` of dials after the first; the last of connect-timeouts is repeated if it has too few. " +
				"Default: one for each further time of connect-timeouts",
			About:    "dials after the first; the last of the connect timeouts is repeated if there are too few",
			InKernel: "a connection has one endpoint, and no other is tried", KernelValue: "0",
		},
		{
			Name: "half-close-timeout", Field: "halfCloseTimeout",
			Value: Timeout{
				Default: time.Hour, // kube-proxy's tcpCloseWaitTimeout
				Never:   true, Needed: true,
				Part: func(p *Port) *time.Duration { return &p.Policy.HalfClose },
			},
			Help:     "close a TCP connection after this `TIME` without data, once one side has closed its direction",
			About:    "time without data after which a TCP connection is closed, once one side has closed its direction",
			InKernel: "conntrack forgets connections by its own timeouts", KernelValue: "0",
		},
		{
			Name: "idle-timeout", Field: "idleTimeout",
			Value:    Timeout{Never: true, Part: func(p *Port) *time.Duration { return &p.Policy.Idle }},
			Help:     "close a TCP connection after this `TIME` without data; 0: never",
			About:    "time without data after which a TCP connection is closed",
			InKernel: "conntrack forgets connections by its own timeouts", KernelValue: "0",
		},
		{
			Name: "udp-timeout", Field: "udpTimeout",
			Value: Timeout{
				Default: DefaultUDPIdle,
				Part:    func(p *Port) *time.Duration { return &p.Policy.UDPIdle },
			},
			Help:     "close a UDP session after this `TIME` without a datagram; conntrack keeps its flow for as long",
			About:    "time without a datagram after which a UDP session is closed",
			InKernel: "conntrack forgets flows by its own timeouts",
		},
		{
			Name: "max-connections", Field: "maxConnections",
			Value: Count{Default: new(0), Set: limit(func(p *Policy) *int { return &p.MaxConnections })},
			Help: "maximum `NUMBER` of concurrent connections, or UDP sessions, of one service port; further ones are " +
				"refused; 0: no limit",
			About:    "maximum number of concurrent connections, or UDP sessions, of each port",
			InKernel: "the number of connections has no limit", KernelValue: "0",
		},
		{
			Name: "client-address", Field: "clientAddress",
			Value: Choice{
				Default: AddressNode.String(),
				Words:   []string{AddressNode.String(), AddressTransparent.String(), AddressProxyV2.String()},
				Set:     func(p *Port, word string) { p.Policy.ClientAddress, _ = ParseClientAddress(word) },
			},
			Help: "`ADDRESS` that endpoints see: node (this node's), transparent (the client's), or proxy-v2 (this node's, " +
				"and the client's in a PROXY protocol header)",
			About:    "address that endpoints see; `proxy-v2` is for TCP only",
			InKernel: "endpoints see the client's address, or this node's where it is masqueraded",
		},
		{
			Name: "connection-log", Flag: "connection-log-records", Field: "connectionLogRecords",
			Value: Choice{
				Default: RecordsAll.String(),
				Words:   []string{RecordsAll.String(), RecordsFailures.String(), RecordsOff.String()},
				Set:     func(p *Port, word string) { p.Policy.Logging.Records, _ = ParseRecords(word) },
			},
			Help: "which `CONNECTIONS` the connection log has: all, failures (the connection or one of its dials failed), " +
				"or off",
			About: "which connections the connection log has; `failures`: the connection or one of its dials failed",
		},
		{
			Name: "connection-log-sample", Field: "connectionLogSample",
			Value: Ratio{Default: 1, Most: maxSample, Part: func(p *Port) *int { return &p.Policy.Logging.Sample }},
			Help:  "`SHARE` of the connections without a failure that the connection log has, such as 1/100; 1/1: all",
			About: "share of the connections without a failure that the connection log has",
		},
		{
			Name: "kernel-records", Field: "kernelRecords",
			Value: Choice{
				Default: RecordsOff.String(),
				Words:   []string{RecordsOff.String(), RecordsFailures.String(), RecordsAll.String()},
				Set:     func(p *Port, word string) { p.Policy.KernelRecords, _ = ParseRecords(word) },
			},
			Help: "which `CONNECTIONS` that the kernel carries get a record: off (none), failures, or all. Other than off " +
				"turns on nf_conntrack_acct and nf_conntrack_timestamp",
			About: "which connections that the kernel carries get a " +
				"[record](records.md#connections-that-the-kernel-carries)",
			InUserspace: "each connection has a record",
		},
	}
}
