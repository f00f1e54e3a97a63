package service

// maxBudget is a bound on mistakes, in percent.
const maxBudget = 10_000

// retrySettings are about endpoints that fail.
func retrySettings() []Setting {
	return []Setting{
		{
			Name: "eject-after", Field: "ejectAfter",
			Value: Count{Default: new(3), Most: 100, Set: limit(func(p *Policy) *int { return &p.EjectAfter })},
			Help: "leave an endpoint out for a while after this `NUMBER` of failures in a row, see docs/retries.md; " +
				"0: never",
			About: "failures in a row after which an endpoint is [left out](retries.md#endpoints-that-are-watched) for a " +
				"while; 0: never",
			InKernel: "an endpoint that fails gets connections as before, until it is not ready", KernelValue: "0",
		},
		ejectOnSetting(),
		{
			Name: "retry-budget", Field: "retryBudget",
			Value: Count{Default: new(20), Most: maxBudget, Set: limit(func(p *Policy) *int { return &p.RetryBudget })},
			Help: "how many retries may fail, in `PERCENT` of the connections of a service port, plus 10 per " +
				"second; 0: no limit",
			About: "retries that may fail, in percent of the connections of each port, plus 10 per second; 0: " +
				"no limit",
			InKernel: "nothing is retried", KernelValue: "0",
		},
	}
}

// ejectOnSetting is which failures eject an endpoint.
func ejectOnSetting() Setting {
	byDefault := (EjectConnect | EjectReset).String()
	return Setting{
		Name: "eject-on", Field: "ejectOn",
		Value: Words{
			Default: byDefault,
			Words:   ejectWords[:],
			Set:     func(p *Port, words []string) { p.Policy.EjectOn = parseEjectOn(words) },
		},
		Help: "`FAILURES` that count for --eject-after, each kind in a row of its own: connect (a dial failed), " +
			"reset-before-response (the endpoint broke the connection before its first byte) and closed-early (it closed " +
			"the connection in mid-exchange, and refused the next dial)",
		About: "which failures count for `eject-after`: `connect`: a dial failed; `reset-before-response`: the endpoint " +
			"broke the connection before its first byte; `closed-early`: it closed the connection in mid-exchange, and " +
			"refused the next dial",
		InKernel: "an endpoint that fails gets connections as before, until it is not ready", KernelValue: byDefault,
	}
}
