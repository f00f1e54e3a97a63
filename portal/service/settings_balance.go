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
				"(by the client's address, on every node the same), or random",
			About: "how the endpoint of a new connection is chosen, where no affinity binds its client; in kernel mode " +
				"as far as the kernel has it",
		},
		{
			Name: "slow-start", Field: "slowStart",
			Value: Timeout{Never: true, Part: func(p *Port) *time.Duration { return &p.Policy.SlowStart }},
			Help:  "a new endpoint gets fewer new connections for this `TIME`, more by and by; 0: as many as the others at once",
			About: "how long a new endpoint gets fewer new connections than the others, more by and by",
		},
	}
}
