package ui

import (
	"bytes"
	"context"
	"io"
	"iter"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/webui"
)

// The page is for this host alone.
func TestListenElsewhere(t *testing.T) {
	for _, at := range []string{"0.0.0.0:0", "10.0.0.1:80", "[::]:0", ":0", "localhost:0", "127.0.0.1", ""} {
		cmd := Command()
		cmd.SetArgs([]string{"--listen", at, "--no-browser"})
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		err := cmd.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), "must be a loopback address") {
			t.Errorf("--listen %s: %v", at, err)
		}
	}
}

// The command serves until it is told to end, at the address that it prints, whose token differs each time.
func TestServe(t *testing.T) {
	node := serve(t)
	tokens := map[string]bool{}
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		read, write := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			s := &server{out: write, wait: time.Minute}
			ended <- s.run(ctx, netip.MustParseAddrPort("127.0.0.1:0"), []webui.Node{node})
		}()
		line := make([]byte, 200)
		n, err := read.Read(line)
		check(t, err)
		found := regexp.MustCompile(`^(http://127\.0\.0\.1:\d+/)#token=([A-Z0-9]{26,})\n`).FindSubmatch(line[:n])
		if found == nil {
			t.Fatalf("it prints %q", line[:n])
		}
		token := string(found[2])
		if tokens[token] {
			t.Error("the same token twice")
		}
		tokens[token] = true
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, string(found[1])+"api/nodes", nil)
		check(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := http.DefaultClient.Do(r)
		check(t, err)
		text, err := io.ReadAll(answer.Body)
		check(t, err)
		answer.Body.Close()
		if !bytes.Contains(text, []byte(`"portald_node":"`)) {
			t.Errorf("%d %s", answer.StatusCode, text)
		}
		cancel()
		check(t, <-ended)
	}
}

// The browser is opened by a file that only its user can read: a command line with the token would be for everybody.
func TestBrowser(t *testing.T) {
	at := "http://127.0.0.1:8899/#token=SECRET"
	path, err := writeLeader(at)
	check(t, err)
	defer os.Remove(path)
	info, err := os.Stat(path)
	check(t, err)
	text, err := os.ReadFile(path)
	check(t, err)
	if info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' || !strings.Contains(string(text), at) {
		t.Errorf("%v %s", info.Mode(), text)
	}
	for _, test := range []struct {
		system, display string
		user            int
		want            string
	}{{"linux", ":0", 1000, "xdg-open"}, {"linux", "", 1000, ""}, {"linux", ":0", 0, ""}, {"darwin", "", 501, "open"},
		{"windows", "", -1, "rundll32"}} {
		line := browserLine(test.system, func(string) string { return test.display }, test.user)
		if got := strings.Join(line, " "); !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%+v: %q", test, got)
		}
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// serve returns a node whose daemon carries nothing.
func serve(t testing.TB) webui.Node {
	t.Helper()
	client := adminsocket.NewClientOver("a", adminsocket.InMemory(adminsocket.NewHandler(adminsocket.Daemon{
		Info:     func() adminsocket.Info { return adminsocket.Info{Node: "a"} },
		Services: func(context.Context, func(string) bool) iter.Seq[*adminsocket.Service] { return none },
	})))
	t.Cleanup(client.Close)
	return webui.Node{Client: client}
}

func none(func(*adminsocket.Service) bool) {}
