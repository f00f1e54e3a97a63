package connlog

import (
	"testing"

	"github.com/portald/portald/proxy/record"
)

// codes are the termination codes of each outcome, before and after an endpoint was reached, and its flags: the table
// of docs/records.md.
var codes = map[record.Outcome]struct{ dialling, connected, flags string }{
	record.OutcomeOK:              {"--", "--", ""},
	record.OutcomeClientReset:     {"CC", "CD", ""},
	record.OutcomeEndpointReset:   {"SC", "SD", ""},
	record.OutcomeClosedEarly:     {"SC", "SD", ""},
	record.OutcomeClientLost:      {"cC", "cD", ""},
	record.OutcomeEndpointLost:    {"sC", "sD", ""},
	record.OutcomeHalfClosed:      {"cC", "cD", ""},
	record.OutcomeIdle:            {"cC", "cD", ""},
	record.OutcomeDialFailed:      {"SC", "SC", "UF,URX"},
	record.OutcomeNoEndpoint:      {"SC", "SC", "UH"},
	record.OutcomeWaitLimit:       {"PC", "PC", "UO"},
	record.OutcomeNotPortal:       {"PR", "PR", "NR"},
	record.OutcomeSourceRange:     {"PR", "PR", "NR"},
	record.OutcomeLimit:           {"PC", "PD", "UO"},
	record.OutcomeClientLimit:     {"PC", "PC", "UO"},
	record.OutcomeRate:            {"PC", "PC", "UO"},
	record.OutcomeClientRate:      {"PC", "PC", "UO"},
	record.OutcomeResources:       {"RC", "RD", "UO"},
	record.OutcomeEndpointRemoved: {"DC", "DD", ""},
	record.OutcomeServiceRemoved:  {"KC", "KD", ""},
	record.OutcomeCut:             {"KC", "KD", ""},
	record.OutcomeReset:           {"-C", "-D", ""},
	record.OutcomeUnanswered:      {"sC", "sC", ""},
	record.OutcomeMaxAge:          {"PC", "PD", "DT"},
}

func TestCodes(t *testing.T) {
	for _, o := range record.Outcomes() {
		want, known := codes[o]
		dialling, connected := &record.Record{Outcome: o, Connect: -1}, &record.Record{Outcome: o}
		if !known || Termination(dialling) != want.dialling || Termination(connected) != want.connected ||
			Flags(connected) != want.flags {
			t.Errorf("%s: %s %s %s", o, Termination(dialling), Termination(connected), Flags(connected))
		}
	}
	slow := &record.Record{Outcome: record.OutcomeDialFailed, Connect: -1, Attempts: []record.Attempt{{Err: "timeout"}}}
	if got := Termination(slow); got != "sC" {
		t.Errorf("a dial without an answer: %s", got)
	}
	kernel := &record.Record{Outcome: record.OutcomeReset, Connect: -1, CarriedBy: record.Kernel}
	if got := Termination(kernel); got != "-D" {
		t.Errorf("a connection of the kernel was reset: %s", got)
	}
	kernel.Outcome = record.OutcomeDialFailed
	if got := Flags(kernel); got != "UF" {
		t.Errorf("the kernel's only dial failed: %s", got)
	}
}
