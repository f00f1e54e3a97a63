package service

// Shares are how much clients may take of a service port. Negative: no limit.
type Shares struct {
	MaxConnectionsPerClient int // live connections or UDP sessions of one client address
	ConnectionRate          int // new ones a second in one address family, and at once
	ConnectionRatePerClient int // new ones a second of one client address, and at once
	MaxWaiting              int // connections and UDP sessions of the Service that wait for an endpoint
}

func (s Shares) or(defaults Shares) Shares {
	fill(&s.MaxConnectionsPerClient, defaults.MaxConnectionsPerClient)
	fill(&s.ConnectionRate, defaults.ConnectionRate)
	fill(&s.ConnectionRatePerClient, defaults.ConnectionRatePerClient)
	fill(&s.MaxWaiting, defaults.MaxWaiting)
	return s
}

// maxWaiting bounds max-waiting: each takes a descriptor and some memory.
const maxWaiting = 100_000

// maxRate is up to where the time between two connections is precise to a thousandth.
const maxRate = 1_000_000

// fairSettings are what a Service gives each of its clients, and how fast its clients may come.
func fairSettings() []Setting {
	return []Setting{
		{
			Name: "max-connections-per-client", Field: "maxConnectionsPerClient",
			Value: Count{
				Default: new(0), Set: limit(func(p *Policy) *int { return &p.Shares.MaxConnectionsPerClient }),
			},
			Help: "maximum `NUMBER` of concurrent connections, or UDP sessions, of one client address to one service " +
				"port; further ones are refused; 0: no limit",
			About:    "maximum number of concurrent connections, or UDP sessions, of one client address to each port",
			InKernel: "the number of connections has no limit", KernelValue: "0",
		},
		{
			Name: "connection-rate", Field: "connectionRate",
			Value: Count{
				Default: new(0), Most: maxRate, Set: limit(func(p *Policy) *int { return &p.Shares.ConnectionRate }),
			},
			Help: "maximum `NUMBER` of new connections, or UDP sessions, per second of one service port, in bursts of up to " +
				"as many; further ones are refused; 0: no limit",
			About:    "maximum number of new connections, or UDP sessions, per second of each port; 0: no limit",
			InKernel: "the rate of connections has no limit", KernelValue: "0",
		},
		{
			Name: "connection-rate-per-client", Field: "connectionRatePerClient",
			Value: Count{
				Default: new(0), Most: maxRate, Set: limit(func(p *Policy) *int { return &p.Shares.ConnectionRatePerClient }),
			},
			Help: "maximum `NUMBER` of new connections, or UDP sessions, per second of one client address to one service " +
				"port, in bursts of up to as many; further ones are refused; 0: no limit",
			About:    "the same of one client address to each port; 0: no limit",
			InKernel: "the rate of connections has no limit", KernelValue: "0",
		},
		{
			Name: "max-waiting", Field: "maxWaiting",
			Value: Count{
				Default: new(1024), Most: maxWaiting, Set: limit(func(p *Policy) *int { return &p.Shares.MaxWaiting }),
			},
			Help: "maximum `NUMBER` of connections and UDP sessions of one Service that wait for an endpoint; if another " +
				"comes, the oldest of the client that has the most is refused; 0: no limit",
			About: "maximum number of connections and UDP sessions of the Service that wait for an endpoint; if another " +
				"comes, the oldest of the client that has the most is refused; needs `wait-for-endpoint`",
			InKernel: "no client waits for an endpoint", KernelValue: "0",
		},
	}
}

// limit sets a number of which 0 means no limit, where a zero field leaves it to the daemon.
func limit(of func(*Policy) *int) func(*Port, int) {
	return func(p *Port, n int) {
		if n == 0 {
			n = -1
		}
		*of(&p.Policy) = n
	}
}
