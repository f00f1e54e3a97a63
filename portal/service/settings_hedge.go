package service

import "time"

// hedgeSettings are for dials that begin while another is in progress.
func hedgeSettings() []Setting {
	return []Setting{{
		Name: "hedge-after", Field: "hedgeAfter",
		Value: Timeout{Never: true, Part: func(p *Port) *time.Duration { return &p.Policy.HedgeAfter }},
		Help: "dial a second endpoint if a TCP dial has no answer after this `TIME`: the first to answer serves, " +
			"the other connection is closed unused; 0: never",
		About: "time after which portald dials a second endpoint if a TCP dial has no answer: the first to answer " +
			"serves, the other connection is closed unused; not with ClientIP affinity",
		InKernel: "a connection has one endpoint, and no other is dialled", KernelValue: "0",
	}}
}
