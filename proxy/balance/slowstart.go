package balance

import "time"

// slowStart has members get fewer connections while they are new.
type slowStart struct {
	time  time.Duration // how long that takes, by the policy; 0 = members get their share at once
	young map[*member]time.Time
}

// leastWeight is the weight of a new endpoint: its share of the connections that each of the others gets.
const leastWeight = 0.1

// weight returns a member's share of the connections that each of the others gets, which grows while it is new.
func (s *slowStart) weight(m *member) float64 {
	since, is := s.young[m]
	if !is || s.time <= 0 {
		return 1
	}
	age := time.Since(since)
	if age >= s.time {
		delete(s.young, m)
		return 1
	}
	return max(leastWeight, float64(age)/float64(s.time))
}

// begin notes which members are new. If all are, none gets less than others.
func (s *slowStart) begin(old, now []*member) {
	for m := range s.young {
		if m.is(gone) {
			delete(s.young, m)
		}
	}
	if s.time <= 0 || len(old) == 0 {
		return
	}
	at := time.Now()
	for _, m := range now {
		if _, before := search(old, m.addrPort()); !before {
			if s.young == nil {
				s.young = map[*member]time.Time{}
			}
			s.young[m] = at
		}
	}
}
