package records

import (
	"testing"

	"github.com/portald/portald/proxy/splice"
)

// codes are the termination codes of each outcome, before and after an endpoint was reached, and its flags: the table
// of docs/records.md.
var codes = map[splice.Outcome]struct{ dialling, connected, flags string }{
	splice.OutcomeOK:              {"--", "--", ""},
	splice.OutcomeClientReset:     {"CC", "CD", ""},
	splice.OutcomeEndpointReset:   {"SC", "SD", ""},
	splice.OutcomeClientLost:      {"cC", "cD", ""},
	splice.OutcomeEndpointLost:    {"sC", "sD", ""},
	splice.OutcomeHalfClosed:      {"cC", "cD", ""},
	splice.OutcomeIdle:            {"cC", "cD", ""},
	splice.OutcomeDialFailed:      {"SC", "SC", "UF,URX"},
	splice.OutcomeNoEndpoint:      {"SC", "SC", "UH"},
	splice.OutcomeWaitLimit:       {"PC", "PC", "UO"},
	splice.OutcomeNotPortal:       {"PR", "PR", "NR"},
	splice.OutcomeSourceRange:     {"PR", "PR", "NR"},
	splice.OutcomeLimit:           {"PC", "PD", "UO"},
	splice.OutcomeClientLimit:     {"PC", "PC", "UO"},
	splice.OutcomeRate:            {"PC", "PC", "UO"},
	splice.OutcomeClientRate:      {"PC", "PC", "UO"},
	splice.OutcomeResources:       {"RC", "RD", "UO"},
	splice.OutcomeEndpointRemoved: {"DC", "DD", ""},
	splice.OutcomeServiceRemoved:  {"KC", "KD", ""},
	splice.OutcomeCut:             {"KC", "KD", ""},
	splice.OutcomeReset:           {"-C", "-D", ""},
	splice.OutcomeUnanswered:      {"sC", "sC", ""},
	splice.OutcomeMaxAge:          {"PC", "PD", "DT"},
}

func TestCodes(t *testing.T) {
	for _, o := range splice.Outcomes() {
		want, known := codes[o]
		dialling, connected := &splice.Record{Outcome: o, Connect: -1}, &splice.Record{Outcome: o}
		if !known || Termination(dialling) != want.dialling || Termination(connected) != want.connected ||
			Flags(connected) != want.flags {
			t.Errorf("%s: %s %s %s", o, Termination(dialling), Termination(connected), Flags(connected))
		}
	}
	slow := &splice.Record{Outcome: splice.OutcomeDialFailed, Connect: -1, Attempts: []splice.Attempt{{Err: "timeout"}}}
	if got := Termination(slow); got != "sC" {
		t.Errorf("a dial without an answer: %s", got)
	}
	kernel := &splice.Record{Outcome: splice.OutcomeReset, Connect: -1, CarriedBy: splice.Kernel}
	if got := Termination(kernel); got != "-D" {
		t.Errorf("a connection of the kernel was reset: %s", got)
	}
	kernel.Outcome = splice.OutcomeDialFailed
	if got := Flags(kernel); got != "UF" {
		t.Errorf("the kernel's only dial failed: %s", got)
	}
}
