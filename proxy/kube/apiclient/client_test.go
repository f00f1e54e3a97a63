package apiclient

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/proxy/secret"
)

// kubeconfig writes a kubeconfig for a server.
func kubeconfig(t *testing.T, server string) string {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	check(t, os.WriteFile(path, []byte("apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, "+
		"context: {cluster: b, user: c}}]\n"+
		"clusters: [{name: b, cluster: {server: '"+server+"', insecure-skip-tls-verify: true}}]\nusers: [{name: c, "+
		"user: {token: secret}}]\n"), 0o600))
	return path
}

func TestNewRefuses(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	broken, empty := filepath.Join(t.TempDir(), "broken"), filepath.Join(t.TempDir(), "empty")
	check(t, os.WriteFile(broken, []byte("apiVersion: v1\nclusters: x\n"), 0o600))
	check(t, os.WriteFile(empty, nil, 0o600))
	_, missing := os.Stat("/nowhere/config")
	missing = errors.Unwrap(missing) // without operation and path: in the words of the host
	for _, c := range []struct {
		name string
		opts Options
		want []string
	}{
		{"no pod", Options{}, []string{"find the API server: this is not a pod",
			"name a kubeconfig, or the server's URL"}},
		{"no file", Options{Kubeconfig: "/nowhere/config"}, []string{"read kubeconfig /nowhere/config: ",
			missing.Error()}},
		{"broken", Options{Kubeconfig: broken}, []string{"read kubeconfig " + broken + ": "}},
		{"empty", Options{Kubeconfig: empty},
			[]string{"read kubeconfig " + empty + ": it names no cluster; write one"}},
		{"no URL", Options{Master: secret.NewURL("http://a b")}, []string{"API server http://a b: "}},
	} {
		_, err := New(c.opts)
		for _, part := range c.want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v\nwant %s", c.name, err, part)
			}
		}
	}
}

func TestNewAsks(t *testing.T) {
	if client, err := New(Options{Master: secret.NewURL("http://localhost:8080")}); err != nil ||
		client.Server() != "http://localhost:8080" {
		t.Errorf("by URL alone: %v %v", client, err)
	}
	var got http.Header
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	defer server.Close()
	for _, c := range []struct {
		name string
		opts Options
		want map[string]string
	}{
		{"by default", Options{Kubeconfig: kubeconfig(t, server.URL)}, map[string]string{
			"Accept": "application/vnd.kubernetes.protobuf, */*", "Authorization": "Bearer secret",
		}},
		{
			"as told", Options{Kubeconfig: kubeconfig(t, "https://elsewhere"), Master: secret.NewURL(server.URL),
				ContentType: "application/json", UserAgent: "portald/1"},
			map[string]string{"Accept": "application/json, */*", "User-Agent": "portald/1"},
		},
	} {
		client, err := New(c.opts)
		check(t, err)
		if client.Server() != server.URL {
			t.Errorf("%s: server %s, want %s", c.name, client.Server(), server.URL)
		}
		_, _ = client.Objects(Nodes).ListWithContext(t.Context(), metav1.ListOptions{}) // the answer is none
		for name, want := range c.want {
			if got.Get(name) != want {
				t.Errorf("%s: %s is %q, want %q", c.name, name, got.Get(name), want)
			}
		}
	}
}

// The user of a URL is sent, from wherever it comes, and is in no message.
func TestUserOfTheURL(t *testing.T) {
	var got http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	host := strings.TrimPrefix(server.URL, "http://")
	urls := []string{"http://jane:hu%40sh@" + host, "http://hush@" + host, "jane:hush@" + host}
	messages := ""
	for _, u := range urls {
		for _, o := range []Options{{Master: secret.NewURL(u)}, {Kubeconfig: kubeconfig(t, u)}} {
			client, err := New(o)
			check(t, err)
			_, _ = client.Objects(Nodes).ListWithContext(t.Context(), metav1.ListOptions{}) // the answer is none
			if !strings.HasPrefix(got.Get("Authorization"), "Basic ") {
				t.Errorf("%s: %q is sent", u, got.Get("Authorization"))
			}
			messages += client.Server()
		}
	}
	server.Close()
	for _, u := range append(urls, "http://jane:hu sh@"+host, "http://jane:hush@"+host+":x", "http://jane:hush@",
		"http://jane:hush%zz@a", "http://jane:hush@a b", "http://a b/jane:hush@") {
		for _, o := range []Options{{Master: secret.NewURL(u)}, {Kubeconfig: kubeconfig(t, u)}} {
			client, err := New(o)
			if err == nil {
				_, err = client.Objects(Nodes).ListWithContext(t.Context(), metav1.ListOptions{})
			}
			if err == nil {
				t.Errorf("%s: no error", u)
			}
			messages += fmt.Sprint(err, "\n")
		}
	}
	for _, hush := range []string{"hush", "hu sh", "hu%40sh", "jane"} {
		if strings.Contains(messages, hush) {
			t.Errorf("%s is in\n%s", hush, messages)
		}
	}
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
