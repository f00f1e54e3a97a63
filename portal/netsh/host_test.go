package netsh

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The addresses of the host that the test runs on.
func TestHostInterfaces(t *testing.T) {
	all, err := HostInterfaces()
	if err != nil {
		t.Fatal(err)
	}
	loopback := Address{Prefix: netip.MustParsePrefix("127.0.0.1/8")}
	i := slices.IndexFunc(all, func(i Interface) bool { return slices.Contains(i.Addresses, loopback) })
	if i < 0 || all[i].Name == "" || all[i].Index == 0 {
		t.Errorf("no interface with a name and %s in %+v", loopback.Prefix, all)
	}
}

// helper is set for the process that a test starts in place of netsh: what it does.
const helper = "NETSH_TEST_PROCESS"

func TestMain(m *testing.M) {
	switch os.Getenv(helper) {
	case "fail":
		os.Stdout.WriteString("Element not found.\r\n\r\n")
		os.Stderr.WriteString(strings.Join(os.Args[1:], "|"))
		os.Exit(3)
	case "hang":
		time.Sleep(time.Hour)
	}
	os.Exit(m.Run())
}

func TestExecute(t *testing.T) {
	t.Setenv(helper, "fail")
	r, err := execute(t.Context(), os.Args[0], []string{"interface", "name=7", `C:\a folder\x`})
	if err != nil || r.Code != 3 || r.Output != "Element not found.\r\n\r\n"+`interface|name=7|C:\a folder\x` {
		t.Errorf("%+v, %v", r, err)
	}
	if got := r.message(); got != `Element not found. interface|name=7|C:\a folder\x` {
		t.Errorf("the message is %q", got)
	}

	t.Setenv(helper, "hang")
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errTooLong)
	defer cancel()
	start := time.Now()
	_, err = execute(ctx, os.Args[0], nil)
	took := time.Since(start)
	if err == nil || !strings.Contains(err.Error(), errTooLong.Error()) || took > 30*time.Second {
		t.Errorf("error %v after %s", err, took)
	}

	if _, err := execute(t.Context(), filepath.Join(t.TempDir(), "none.exe"), nil); err == nil {
		t.Error("no error for a program that is not there")
	}
}

// Text for people is short, in one line, and valid UTF-8.
func TestMessage(t *testing.T) {
	long := Result{Output: strings.Repeat("对象已存在。\r\n", 200) + "\xb6\xd4"}
	if got := long.message(); len(got) > maxMessage+5 || strings.ContainsAny(got, "\r\n\uFFFD") {
		t.Errorf("%q", got)
	}
	if got := (Result{Output: "Schnittstelle \x81ber\r\n"}).message(); got != "Schnittstelle ?ber" {
		t.Errorf("%q", got)
	}
}
