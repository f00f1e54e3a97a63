package netshtest

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Every capture in testdata can be read, and a Netsh made of it says what was captured in each situation.
func TestCaptures(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c, err := ReadCapture(text)
			if err != nil {
				t.Fatal(err)
			}
			repeat(t, c)
		})
	}
}

// repeat brings about what was captured.
func repeat(t *testing.T, c Capture) {
	n, repeated := NewFromCapture(c), 0
	device := c.Interfaces[len(c.Interfaces)-1].Name
	for _, x := range []struct {
		said Said
		line []string
	}{
		{Done, []string{"interface", "ipv4", "add", "address", "name=" + device, "address=192.0.2.1"}},
		{Exists, []string{"interface", "ipv4", "add", "address", "name=" + device, "address=192.0.2.1"}},
		{NotFound, []string{"interface", "ipv4", "delete", "address", "name=" + device, "address=192.0.2.2"}},
		{NoInterface, []string{"interface", "ipv4", "add", "address", "name=4711", "address=192.0.2.1"}},
		{NotElevated, []string{"interface", "ipv4", "add", "address", "name=" + device, "address=192.0.2.3"}},
		{Incorrect, []string{"interface", "ipv4", "add", "address", "name=" + device, "address=240.0.0.1"}},
	} {
		i := slices.IndexFunc(c.Runs, func(r Captured) bool { return r.Name == x.said })
		if i < 0 {
			continue // one that is not elevated cannot add an address
		}
		repeated++
		n.Faults.NotElevated = x.said == NotElevated
		got, err := n.Exec(t.Context(), x.line...)
		if want := c.Runs[i]; err != nil || got.Code != want.ExitCode || !slices.Equal(got.Output, want.Output) {
			t.Errorf("%s: %+v, %v, want %d %q", x.said, got, err, want.ExitCode, want.Output)
		}
	}
	if repeated == 0 {
		t.Error("nothing was captured that portald would see")
	}
}

// The interfaces, states and excluded ports of a capture are the host's.
func TestCapturedHost(t *testing.T) {
	text, err := os.ReadFile("testdata/made-up-german.json")
	if err != nil {
		t.Fatal(err)
	}
	c, err := ReadCapture(text)
	if err != nil {
		t.Fatal(err)
	}
	n := NewFromCapture(c)
	all, _ := n.Host.Interfaces()
	if len(all) != 4 || all[1].Addresses[0].Prefix.String() != "fe80::5c1b:2f3d:9a1e:77c0/64" || all[2].Index != 11 {
		t.Errorf("interfaces %+v", all)
	}
	m := n.Host.(*Memory)
	for at, want := range map[string]error{
		"192.168.1.10:80": nil, "169.254.83.107:80": notAvailable, "192.168.1.10:50010": forbidden,
	} {
		if err := m.Bind(Socket{"tcp", netip.MustParseAddrPort(at)}); err != want {
			t.Errorf("%s: %v, want %v", at, err, want)
		}
	}
	if got, want := fmt.Sprint(c.PodDials), "[{192.0.2.77 3f6c1a9b2d4e5 Disabled 10.244.2.9 52 231.7} "+
		"{10.96.255.77 3f6c1a9b2d4e5 Disabled  28 15002.1}]"; got != want {
		t.Errorf("dials of pods %s, want %s", got, want)
	}
	if got := fmt.Sprint(c.Timings); got != "[{call add 100 100 0 412.5}]" {
		t.Errorf("timings %s", got)
	}
	if n.PerCall != 118400*time.Microsecond {
		t.Errorf("a process takes %s", n.PerCall)
	}
}

func TestWhatIsNoCapture(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "read capture",
		`{"format": 2}`:                         "format 2",
		`{"format": 1, "runs": [{}]}`:           "0 interfaces",
		`{"format": 1, "interfaces": [{}]}`:     "0 runs",
		`{"interfaces": [{"addresses": [{}]}]}`: "prefix length",
		`{"format": 1, "runs": [{"output": "ü"}]}`: "read capture",
	} {
		if _, err := ReadCapture([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}
