package service

import "time"

// balanceSettings are how the endpoint of a new connection is chosen.
func balanceSettings() []Setting {
	words := make([]string, 0, len(Algorithms()))
	for _, a := range Algorithms() {
		words = append(words, a.String())
	}
	return []Setting{
		{
			Name: "algorithm", Field: "algorithm",
			Value: Choice{
				Default: RoundRobin.String(),
				Words:   words,
				Set:     func(p *Port, word string) { p.Policy.Algorithm, _ = ParseAlgorithm(word) },
			},
			Help: "`ALGORITHM` that chooses the endpoint of a new connection: round-robin, least-connections, source-hash " +
				"(by the client's address, the same on every node), or random",
			About: "how the endpoint of a new connection is chosen if no affinity binds its client; in kernel " +
				"mode as far as the kernel supports it",
		},
		{
			Name: "slow-start", Field: "slowStart",
			Value: Timeout{Never: true, Part: func(p *Port) *time.Duration { return &p.Policy.SlowStart }},
			Help: "a new endpoint gets a smaller but rising share of new connections for this `TIME`; 0: its " +
				"full share at once",
			About:    "how long a new endpoint gets a smaller but rising share of new connections",
			InKernel: "new endpoints get connections at once", KernelValue: "0",
		},
	}
}
