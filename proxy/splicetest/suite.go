// Package splicetest tests an engine of proxy/splice, by one suite that every engine passes over real sockets: retries,
// endings and their records, limits, drains, UDP sessions, shortages, leaks. It knows the public API of splice alone,
// and nothing of how an engine moves bytes.
package splicetest

import (
	"slices"
	"testing"
)

// Run runs the suite, or with -short what of it needs neither privileges nor a second.
func Run(t *testing.T, e Engine) {
	ports, all := newPorts(), scenarios()
	if testing.Short() {
		all = slices.DeleteFunc(quickScenarios(), func(s scenario) bool { return s.scope != shared })
	}
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			if lacks := s.needs &^ e.Can; lacks != 0 {
				t.Skip("this engine does not have:", lacks)
			}
			s.start(&trial{T: t, engine: e, ports: ports})
		})
	}
}

func quickScenarios() []scenario {
	return slices.Concat(echoScenarios(), resetScenarios(), recordScenarios(), limitScenarios(), headerScenarios(),
		hostLookupScenarios(), drainScenarios(), successorScenarios())
}

func scenarios() []scenario {
	return slices.Concat(echoScenarios(), halfCloseScenarios(), closedEarlyScenarios(), resetScenarios(),
		idleScenarios(), retryScenarios(),
		waitScenarios(), endpointWaitScenarios(), refusalScenarios(), drainScenarios(), recordScenarios(), policyScenarios(),
		limitScenarios(), shareScenarios(), headerScenarios(), hostLookupScenarios(), scopeScenarios(),
		udpScenarios(), udpEndScenarios(),
		udpAnswerScenarios(), leavingScenarios(), leaseScenarios(), unreadScenarios(), wholeAnswerScenarios(),
		leakScenarios(), manyIdleScenarios(),
		registryScenarios(), factScenarios(), tcpInfoScenarios(), blockedScenarios(),
		hedgeScenarios(), replayScenarios(), payloadScenarios(), fairScenarios(), lastingScenarios(), togetherScenarios(),
		successorScenarios(),
		systemScenarios())
}
