package service

import "time"

// maxRetries bounds mistakes: more dials than one for each retry and the first help no connection.
const maxRetries = 15

// Settings are all that a Service may set by annotations, in the order of the manual.
func Settings() []Setting {
	return []Setting{
		{
			Name: "mode",
			Value: Choice{
				Words: []string{ModeUserspace.String(), ModeKernel.String()},
				Set:   func(p *Port, word string) { p.Mode, _ = ParseMode(word) },
			},
			About: "who carries the Service; the annotations below count in userspace alone",
		},
		{
			Name: "connect-timeouts", Field: "connectTimeouts",
			Value: Times{
				// those of kube-proxy's old userspace mode
				Default: []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second},
				Most:    maxRetries + 1,
				Part:    func(p *Port) *[]time.Duration { return &p.Policy.ConnectTimeouts },
			},
			Help:  "`TIMES` that the dials of one connection may take, each to another endpoint",
			About: "times that the dials of one connection may take, each to another endpoint",
		},
		{
			Name: "retries", Field: "retries",
			Value: Count{Most: maxRetries, Set: func(p *Port, n int) { p.Policy.Dials = n + 1 }},
			Help: "`NUMBER` of dials after the first; times that connect-timeouts lacks are its last. " +
				"Default: as many as it has times for",
			About: "dials after the first; times that are missing for them are the last there is",
		},
		{
			Name: "half-close-timeout", Field: "halfCloseTimeout",
			Value: Timeout{
				Default: time.Hour, // kube-proxy's tcpCloseWaitTimeout
				Never:   true, Needed: true,
				Part: func(p *Port) *time.Duration { return &p.Policy.HalfClose },
			},
			Help:  "end a connection after this `TIME` without a byte, once one side has ended its direction",
			About: "a TCP connection ends after this time without a byte, once one side has ended its direction",
		},
		{
			Name: "idle-timeout", Field: "idleTimeout",
			Value: Timeout{Never: true, Part: func(p *Port) *time.Duration { return &p.Policy.Idle }},
			Help:  "end a connection after this `TIME` without a byte; 0: never",
			About: "a TCP connection ends after this time without a byte",
		},
		{
			Name: "udp-timeout", Field: "udpTimeout",
			Value: Timeout{
				Default: time.Minute, // between the kernel's for a flow without an answer (30 s) and for a stream (120 s)
				Part:    func(p *Port) *time.Duration { return &p.Policy.UDPIdle },
			},
			Help:  "end a UDP session after this `TIME` without a datagram",
			About: "a UDP session ends after this time without a datagram",
		},
		{
			Name: "max-connections", Field: "maxConnections",
			Value: Count{Default: new(0), Set: setMaxConnections},
			Help: "`NUMBER` of connections, or UDP sessions, that one service port may have at a time, further ones are " +
				"refused; 0: any number",
			About: "connections, or UDP sessions, that each port may have at a time",
		},
		{
			Name: "client-address", Field: "clientAddress",
			Value: Choice{
				Default: AddressNode.String(),
				Words:   []string{AddressNode.String(), AddressTransparent.String(), AddressProxyV2.String()},
				Set:     func(p *Port, word string) { p.Policy.ClientAddress, _ = ParseClientAddress(word) },
			},
			Help: "`HOW` endpoints learn who the client is: node (not at all: they see this node), transparent (its " +
				"address is kept), proxy-v2 (a PROXY protocol header)",
			About: "how endpoints learn who the client is; `proxy-v2` is for TCP alone",
		},
	}
}

func setMaxConnections(p *Port, n int) {
	if n == 0 {
		n = -1 // no limit, where 0 would leave it to the daemon
	}
	p.Policy.MaxConnections = n
}
