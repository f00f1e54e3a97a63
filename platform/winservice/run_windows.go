package winservice

import (
	"errors"
	"fmt"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
)

// Run runs a Program as the service that the SCM started this process for, and returns its error. It fails if a user
// started this process.
func Run(program Program) error {
	h := &handler{program: program}
	err := svc.Run(Name, h)
	if errors.Is(err, windows.ERROR_FAILED_SERVICE_CONTROLLER_CONNECT) {
		return fmt.Errorf("--windows-service (windowsRunAsService) is for the service control manager, which did not "+
			"start this process (%w); run portald without it, or portald service start", err)
	}
	return errors.Join(err, h.err)
}

// handler implements svc.Handler.
type handler struct {
	program Program
	err     error
}

// exitCode is the exit code of a service that failed, service-specific since no code of Windows says more.
const exitCode = 1

// Execute runs the program until it ends.
func (h *handler) Execute(_ []string, from <-chan svc.ChangeRequest, to chan<- svc.Status) (special bool, code uint32) {
	requests, ended := make(chan Request), make(chan struct{})
	defer close(ended)
	go pass(from, requests, ended)
	s := &session{program: h.program, requests: requests, report: func(r Report) { to <- statusOf(r) }}
	if h.err = s.run(); h.err != nil {
		return true, exitCode
	}
	return false, 0
}

// pass translates requests until the service has ended.
func pass(from <-chan svc.ChangeRequest, to chan<- Request, ended <-chan struct{}) {
	known := map[svc.Cmd]Request{
		svc.Interrogate: Interrogate, svc.Stop: Stop, svc.PreShutdown: Preshutdown, svc.Shutdown: Shutdown,
	}
	for {
		select {
		case <-ended:
			return
		case c := <-from:
			request, ok := known[c.Cmd]
			if !ok {
				continue
			}
			select {
			case to <- request:
			case <-ended:
				return
			}
		}
	}
}

// statusOf translates a report. A service that is stopping still hears that Windows shuts down.
func statusOf(r Report) svc.Status {
	out := svc.Status{State: svc.State(r.State), CheckPoint: r.Checkpoint, WaitHint: uint32(r.WaitHint.Milliseconds())}
	switch r.State {
	case Running:
		out.Accepts = svc.AcceptStop | svc.AcceptPreShutdown | svc.AcceptShutdown
	case Stopping:
		out.Accepts = svc.AcceptPreShutdown | svc.AcceptShutdown
	}
	return out
}
