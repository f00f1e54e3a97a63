// Package winservice makes a Program a service of Windows: it runs the Program under the service control manager (SCM),
// installs and controls the service, writes to the event log, and asks for the firewall's rule. All decisions compile
// and are tested on every system; the files for Windows only make the calls. It does not know what the Program does.
package winservice

import "time"

// Name is the name of the service, of its source in the event log and of its rule of the firewall.
const Name = "portald"

// State is a service's state as the SCM has it. The values are SERVICE_STATUS's.
type State uint32

// The states that a service without a pause can have.
const (
	Stopped  State = 1
	Starting State = 2
	Stopping State = 3
	Running  State = 4
)

// String is the word of `portald service status`.
func (s State) String() string {
	switch s {
	case Stopped:
		return "Stopped"
	case Starting:
		return "Starting"
	case Stopping:
		return "Stopping"
	case Running:
		return "Running"
	}
	return "Unknown"
}

// PreshutdownTimeout is how long Windows waits for the service before it shuts down: it is written at install. The
// default of Windows is 10 s, less than connections have to end by themselves.
const PreshutdownTimeout = 3 * time.Minute
