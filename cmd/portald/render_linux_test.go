package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal/netsh"
	"github.com/portald/portald/portal/netshtest"
)

// Every rendering is accepted by the command that it is for.
func TestRenderForCommands(t *testing.T) {
	eachRendering(t, func(t *testing.T, file string, args []string) {
		ipvs := filepath.Base(file) == "ipvs"
		if inGuest() && !ipvs {
			return // checked outside the virtual machine
		}
		text, err := runRender(t, args...)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(file) == "netsh" {
			checkNetsh(t, text)
			return
		}
		if ipvs && inGuest() {
			netnstest.Enter(t)
		}
		for _, section := range sections(text) {
			section.check(t)
		}
	})
}

// checkNetsh has the simulated netsh run a rendering on a host without addresses.
func checkNetsh(t *testing.T, text string) {
	t.Helper()
	host := &netshtest.Memory{}
	host.Plug(netsh.DefaultInterface, 7)
	script := filepath.Join(t.TempDir(), "script.txt")
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	said, err := (&netshtest.Netsh{Host: host}).Exec(t.Context(), "-f", script)
	interfaces, _ := host.Interfaces()
	commands := strings.Count("\n"+text, "\ninterface ")
	if err != nil || len(interfaces[0].Addresses) != commands {
		t.Errorf("%d addresses after %d commands: %s %v", len(interfaces[0].Addresses), commands, said.Output, err)
	}
}

// inGuest tells that the test runs in the virtual machine of integration/vmrun, whose kernel has IPVS.
func inGuest() bool { return os.Getenv("VM_IN_GUEST") == "1" }

// section is the input of one command.
type section struct {
	command []string
	text    string
}

// sections splits a rendering at the comment lines that name a command.
func sections(text string) (out []section) {
	if !strings.HasPrefix(text, "# ip") || strings.HasPrefix(text, "# IPv") {
		return []section{{[]string{"nft", "-f", "-"}, text}}
	}
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "# "); ok {
			out = append(out, section{command: strings.Fields(rest)})
			continue
		}
		out[len(out)-1].text += line
	}
	return out
}

// check has the command look at its input, in a network of its own. Tests that need a kernel with IPVS are in the
// virtual machine.
func (s section) check(t *testing.T) {
	t.Helper()
	command := s.command
	switch {
	case inGuest():
	case command[0] == "nft":
		command = slices.Concat([]string{"unshare"}, unshared(), command, []string{"--check"})
	case strings.HasSuffix(command[0], "-restore") && !strings.Contains(s.text, "--match-set"):
		command = slices.Concat([]string{"unshare"}, unshared(), command, []string{"--test"})
	default:
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin = strings.NewReader(s.text)
	cmd.Env = append(os.Environ(), "XTABLES_LOCKFILE="+filepath.Join(t.TempDir(), "xtables.lock"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", strings.Join(s.command, " "), err, out)
	}
}

func unshared() []string {
	if os.Geteuid() == 0 {
		return []string{"--net"}
	}
	return []string{"--net", "--map-root-user"}
}
