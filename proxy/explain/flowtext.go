package explain

import (
	"fmt"

	"github.com/portald/portald/proxy/kernel/flows"
)

// mostFlows bounds the entries that are listed.
const mostFlows = 10

// flowText is an entry of the conntrack table in words, with notes.
func flowText(f flows.Flow, notes string) string {
	if f.Status&flows.SeenReply == 0 {
		notes = ", no answer yet" + notes
	}
	if state := f.State.String() + f.SCTP.String(); state != "" {
		notes = " " + state + notes
	}
	led := ""
	if f.Replier != f.To {
		led = fmt.Sprintf(", led to %s", f.Replier)
	}
	return fmt.Sprintf("%s %s to %s%s%s, %d s left", f.Protocol, f.From, f.To, led, notes, f.Timeout)
}
