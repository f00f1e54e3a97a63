package winservice

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// firewallTimeout bounds each command.
const firewallTimeout = 20 * time.Second

// Firewall is the firewall of Windows, by netsh. It goes by exit codes alone, since texts are translated.
type Firewall struct {
	// Netsh runs netsh, and returns its exit code and what it says, for people.
	Netsh func(ctx context.Context, args ...string) (code int, says string, err error)
}

// Allow adds the rule for a program, in place of one that there is.
func (f Firewall) Allow(ctx context.Context, program string) error {
	if err := f.Remove(ctx); err != nil {
		return err
	}
	return f.run(ctx, "add the rule of the firewall", allowArgs(program)...)
}

// Remove removes the rule. It is no error if there is none.
func (f Firewall) Remove(ctx context.Context) error {
	there, err := f.Allows(ctx)
	if err != nil || !there {
		return err
	}
	return f.run(ctx, "remove the rule of the firewall", "advfirewall", "firewall", "delete", "rule", "name="+Name)
}

// Allows tells whether there is a rule of that name: netsh ends with 1 if it has none to show.
func (f Firewall) Allows(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, firewallTimeout)
	defer cancel()
	code, says, err := f.Netsh(ctx, "advfirewall", "firewall", "show", "rule", "name="+Name, "dir=in")
	switch {
	case err != nil:
		return false, fmt.Errorf("look for the rule of the firewall: %w", err)
	case code > 1:
		return false, fmt.Errorf("look for the rule of the firewall: netsh ended with %d: %s", code, oneLine(says))
	}
	return code == 0, nil
}

func (f Firewall) run(ctx context.Context, doing string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, firewallTimeout)
	defer cancel()
	code, says, err := f.Netsh(ctx, args...)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if code != 0 {
		return fmt.Errorf("%s: netsh ended with %d: %s", doing, code, oneLine(says))
	}
	return nil
}

// oneLine shortens the output of netsh, which may be its manual, for an error.
func oneLine(says string) string {
	const most = 200
	text := strings.Join(strings.Fields(says), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// allowArgs are the arguments of netsh for the rule of a program. It is for every profile: Windows counts the
// interfaces of pods as a public network, since they belong to no domain. It is for the program alone: the ports that
// portald listens at are open and no others, and a change of Services needs no change of the rule.
func allowArgs(program string) []string {
	return []string{"advfirewall", "firewall", "add", "rule", "name=" + Name, "dir=in", "action=allow",
		"program=" + program, "profile=any", "enable=yes", "description=Services of Kubernetes that portald serves"}
}

// AllowCommand is the command that adds the rule, for an elevated prompt.
func AllowCommand(program string) string {
	args := allowArgs(program)
	for i, a := range args {
		if name, value, _ := strings.Cut(a, "="); strings.Contains(value, " ") {
			args[i] = name + `="` + value + `"`
		}
	}
	return "netsh " + strings.Join(args, " ")
}
