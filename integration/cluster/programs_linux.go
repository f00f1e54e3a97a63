package cluster

import (
	"fmt"
	"strings"
)

// Program is one process of the control plane.
type Program string

// The programs, by their names for kubetest.
const (
	Etcd              Program = "etcd"
	APIServer         Program = "kube-apiserver"
	ControllerManager Program = "kube-controller-manager"
)

// Kill ends a program at once: its connections are reset, or closed without a word.
func (c *Cluster) Kill(p Program) error { return c.tell("kill", p) }

// Stop asks a program to end, as in a rolling update of the control plane, and waits until it has.
func (c *Cluster) Stop(p Program) error { return c.tell("stop", p) }

// Start runs a program that was killed or stopped again, at the same port, and waits until it is ready.
func (c *Cluster) Start(p Program) error { return c.tell("start", p) }

// Pause suspends a program: its connections stay open but carry no data.
func (c *Cluster) Pause(p Program) error { return c.tell("pause", p) }

// Continue resumes a paused program.
func (c *Cluster) Continue(p Program) error { return c.tell("cont", p) }

// tell sends a command to kubetest and waits until it is done.
func (c *Cluster) tell(verb string, p Program) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := fmt.Fprintln(c.lines, verb, p); err != nil {
		return fmt.Errorf("%s %s: %w", verb, p, err)
	}
	line, err := c.answer()
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, p, err)
	}
	if reason, bad := strings.CutPrefix(line, "error "); bad {
		return fmt.Errorf("%s %s: %s", verb, p, reason)
	}
	return nil
}
