package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portald/portald/portal/portaltest"
)

// renderings are the files beside each services.yaml, by who carries and who writes.
var renderings = map[string][]string{
	"userspace": nil,
	"iptables":  {"--proxy-mode=iptables"},
	"nftables":  {"--proxy-mode=nftables", "--nodeport-addresses=0.0.0.0/0,::/0"},
	"ipvs":      {"--proxy-mode=ipvs"},
}

// runRender is the command with a node that is here and pods that are known.
func runRender(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := root()
	cmd.SetOut(&out)
	cmd.SetArgs(append([]string{"render", "--hostname-override=here", "--cluster-cidr=10.244.0.0/16,fd00:10:244::/48",
		"--external-ip-cidrs=203.0.113.0/24", "--log-level=error"}, args...))
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// Every rendering is the same each time, is what it was, and is taken by the command that it is for.
func TestRender(t *testing.T) {
	cases, err := filepath.Glob("testdata/render/*/services.yaml")
	if err != nil || len(cases) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, services := range cases {
		dir := filepath.Dir(services)
		for name, args := range renderings {
			if inGuest() && name != "ipvs" {
				continue
			}
			t.Run(filepath.Base(dir)+"/"+name, func(t *testing.T) {
				args := append([]string{"--manifests=" + services}, args...)
				got, err := runRender(t, args...)
				if err != nil {
					t.Fatal(err)
				}
				if again, _ := runRender(t, args...); again != got {
					t.Error("not the same twice")
				}
				compareRendering(t, filepath.Join(dir, name), got)
				if name == "ipvs" && inGuest() {
					portaltest.Enter(t)
				}
				for _, section := range sections(got) {
					section.check(t)
				}
			})
		}
	}
}

func compareRendering(t *testing.T, path, got string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; UPDATE_GOLDEN=1 writes it anew):\n%s", path, diff)
	}
}

// inGuest tells that the test runs in the virtual machine of integration/vmrun, whose kernel has IPVS.
func inGuest() bool { return os.Getenv("VM_IN_GUEST") == "1" }

// section is the input of one command.
type section struct {
	command []string
	text    string
}

// sections are told apart by their first lines, which name the command.
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

// check has the command look at its input, in a network of its own. What takes a kernel with IPVS is done for real, in
// the virtual machine.
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

// One Service's share names no other Service.
func TestRenderOneService(t *testing.T) {
	const services = "--manifests=testdata/render/mixed/services.yaml"
	for name, args := range renderings {
		got, err := runRender(t, slices.Concat([]string{services, "--service=shop/kernel"}, args)...)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(got, "10.96.0.11") || strings.Contains(got, "10.96.0.10") || strings.Contains(got, "10.96.0.12") {
			t.Errorf("%s:\n%s", name, got)
		}
	}
	if _, err := runRender(t, services, "--service=shop/none"); err == nil || !strings.Contains(err.Error(), "shop/none") {
		t.Errorf("a Service that is not there: %v", err)
	}
	if _, err := runRender(t); err == nil || !strings.Contains(err.Error(), "--manifests") {
		t.Errorf("without manifests: %v", err)
	}
}
