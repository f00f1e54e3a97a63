package service

import "time"

// hedgeSettings are those of dials that begin while another is under way.
func hedgeSettings() []Setting {
	return []Setting{{
		Name: "hedge-after", Field: "hedgeAfter",
		Value: Timeout{Never: true, Part: func(p *Port) *time.Duration { return &p.Policy.HedgeAfter }},
		Help: "dial another endpoint too when a TCP dial has no answer after this `TIME`: the first to answer serves, " +
			"and the other is closed unused; 0: never",
		About: "time after which a TCP dial without an answer has another endpoint dialled too: the first to answer " +
			"serves, and the other is closed unused; not with ClientIP affinity",
	}}
}
