package faults

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/platform/doctor"
)

// node is a bed with a daemon that serves cart, and how the doctor is run there.
type node struct {
	*bed.Bed
	daemon *bed.Daemon
	run    []string // before the command line of the doctor
	fails  func()   // has a pod fail
}

// newNode starts a daemon with these arguments that serves cart.
func newNode(t *testing.T, args ...string) *node {
	b := bed.New(t, "env", "unshare", "sh")
	b.ServePods(0)
	n := &node{Bed: b, daemon: b.Start(b.Cart(0), args...)}
	n.daemon.ExpectErrors = true
	return n
}

// doctor runs `portald doctor` on the node.
func (n *node) doctor() doctor.Report {
	n.Helper()
	line := append(slices.Clone(n.run), bed.Portald, "doctor", "-o", "json", "--socket", n.daemon.Socket)
	text, err := n.Try(n.Node, line[0], line[1:]...)
	var r doctor.Report
	if bad := json.Unmarshal([]byte(text), &r); bad != nil {
		n.Fatalf("the doctor says %q: %v", text, bad)
	}
	if (err != nil) != (r.Count(doctor.Error) > 0) {
		n.Errorf("with %d errors: %v", r.Count(doctor.Error), err)
	}
	return r
}

// ofTheMachine are the checks of properties that namespaces share with the machine that the tests run on.
func ofTheMachine() []string {
	return []string{"clock", "conntrack-buckets", "descriptor-limit", "host-files", "iptables", "kernel", "memory",
		"pipes", "socket-load-balancer"}
}

// wrong returns what is found on the node, besides what is wrong with the machine, but for one check.
func wrong(r doctor.Report, but string) (out []doctor.Finding) {
	for _, f := range r.Findings {
		if f.Severity != doctor.OK && (f.Check == but || !slices.Contains(ofTheMachine(), f.Check)) {
			out = append(out, f)
		}
	}
	return out
}

// A healthy node has no findings, in every mode, and all is looked at.
func TestHealthyNode(t *testing.T) {
	for _, m := range bed.Modes() {
		t.Run(m.Name, func(t *testing.T) {
			n := newNode(t, m.Args...)
			r := n.doctor()
			if findings := wrong(r, ""); len(findings) > 0 {
				t.Errorf("finds %+v", findings)
			}
			for _, c := range r.NotChecked {
				if !slices.Contains(ofTheMachine(), c.Check) {
					t.Errorf("not checked: %+v", c)
				}
			}
		})
	}
}

// doctorFault is a fault of a node, and the finding that the doctor reports.
type doctorFault struct {
	check, says string
	severity    doctor.Severity // empty: any
	args        []string        // of the daemon
	plant       func(*node)
	cleaned     bool // a daemon that has just started may remove it: it is planted until it stays
	mended      bool // portald makes it good, and says so: the doctor looks until it comes before that
}

// The doctor names each fault, and nothing else.
func TestDoctorNamesFaults(t *testing.T) {
	for name, fault := range doctorFaults() {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, fault.args...)
			fault.plant(n)
			named := func(f doctor.Finding) bool {
				return f.Check == fault.check && (fault.severity == "" || f.Severity == fault.severity) &&
					strings.Contains(f.Seen, fault.says) && f.Why != "" && f.Do != ""
			}
			findings := wrong(n.doctor(), fault.check)
			for range 5 {
				if !fault.cleaned && !fault.mended || slices.ContainsFunc(findings, named) {
					break
				}
				if fault.cleaned {
					fault.plant(n)
				}
				findings = wrong(n.doctor(), fault.check)
			}
			if !slices.ContainsFunc(findings, named) {
				t.Errorf("found %+v, want %s with %q", findings, fault.check, fault.says)
			}
			for _, f := range findings {
				if f.Check != fault.check && (!fault.mended || f.Check != "rules-changed") {
					t.Errorf("also found %+v", f)
				}
			}
		})
	}
}
