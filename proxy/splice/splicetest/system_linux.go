package splicetest

import "slices"

// systemScenarios are those that need Linux.
func systemScenarios() []scenario {
	return slices.Concat(urgentScenarios(), shortageScenarios(), externalScopeScenarios(), transparentScenarios(),
		sourcePortScenarios(), udpPortScenarios(), markScenarios(), retransmitScenarios(), handOverScenarios(),
		sessionHandOverScenarios(), deadPeerScenarios(), holdHandOverScenarios(),
		lastingHandOverScenarios(), slowScenarios(), replayLinuxScenarios())
}
