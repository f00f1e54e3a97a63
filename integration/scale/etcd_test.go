//go:build linux

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Messages are as etcd's JSON has them, and an answer that is none is an error.
func TestEtcdMessages(t *testing.T) {
	var request, answer string
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		request = r.Method + " " + r.URL.Path + " " + string(body)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer) // the client says what it lacks
	}))
	defer server.Close()
	store := &etcd{server.URL, server.Client()}
	entries := []entry{{"/a", []byte("1")}, {"/b", []byte("2")}}

	answer = `{"header":{"revision":"7"},"succeeded":true,"responses":[]}`
	if err := store.create(t.Context(), entries); err != nil {
		t.Error(err)
	}
	want := `POST /v3/kv/txn {"compare":[` +
		`{"key":"L2E=","target":"CREATE","result":"EQUAL","create_revision":"0"},` +
		`{"key":"L2I=","target":"CREATE","result":"EQUAL","create_revision":"0"}],` +
		`"success":[{"request_put":{"key":"L2E=","value":"MQ=="}},{"request_put":{"key":"L2I=","value":"Mg=="}}]}`
	if diff := cmp.Diff(want, request); diff != "" {
		t.Errorf("create (-want +got):\n%s", diff)
	}
	for _, answer = range []string{`{"header":{"revision":"7"}}`, `{"succeeded":false}`, `{`} {
		if err := store.create(t.Context(), entries); err == nil {
			t.Errorf("create: %s is success", answer)
		}
	}

	answer = `{"kvs":[{"key":"L2E=","value":"MQ==","create_revision":"2"}],"count":"1"}`
	if got, err := store.read(t.Context(), "/a"); err != nil || string(got) != "1" {
		t.Errorf("read: %q, %v", got, err)
	}
	if request != `POST /v3/kv/range {"key":"L2E="}` {
		t.Errorf("read: asked %s", request)
	}
	answer = `{"header":{"revision":"7"}}`
	if got, err := store.read(t.Context(), "/a"); err == nil {
		t.Errorf("read: %q of a key that is not there", got)
	}
	status = http.StatusServiceUnavailable
	answer = `{"succeeded":true}`
	if err := store.create(t.Context(), entries); err == nil {
		t.Error("create: status 503 is success")
	}
}
