//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// etcd is the API server's store, reached directly, by the HTTP gateway of etcd's own API.
type etcd struct {
	url    string
	client *http.Client
}

// entry is an object as it is stored.
type entry struct {
	key   string
	value []byte
}

// mostEntries is how many a transaction may have: etcd's default of --max-txn-ops.
const mostEntries = 128

// The parts of etcd's messages that we use, in JSON: bytes are in base64, and numbers of 64 bits are text.
type (
	etcdRange struct {
		Key []byte `json:"key"`
	}
	etcdValues struct {
		KVs []etcdPut `json:"kvs"`
	}
	etcdPut struct {
		Key   []byte `json:"key"`
		Value []byte `json:"value"`
	}

	etcdTransaction struct {
		Compare []etcdCompare   `json:"compare"`
		Success []etcdOperation `json:"success"`
	}
	etcdCompare struct {
		Key            []byte `json:"key"`
		Target         string `json:"target"`
		Result         string `json:"result"`
		CreateRevision string `json:"create_revision"`
	}
	etcdOperation struct {
		Put etcdPut `json:"request_put"`
	}
	etcdOutcome struct {
		Succeeded bool `json:"succeeded"`
	}
)

// read returns the value of a key.
func (e *etcd) read(ctx context.Context, key string) ([]byte, error) {
	var found etcdValues
	if err := e.post(ctx, "/v3/kv/range", etcdRange{[]byte(key)}, &found); err != nil {
		return nil, err
	}
	if len(found.KVs) != 1 {
		return nil, fmt.Errorf("etcd has %d values of %s, want one", len(found.KVs), key)
	}
	return found.KVs[0].Value, nil
}

// create stores at most mostEntries, and none of them if the key of one is there already.
func (e *etcd) create(ctx context.Context, all []entry) error {
	var t etcdTransaction
	for _, one := range all {
		key := []byte(one.key)
		t.Compare = append(t.Compare, etcdCompare{key, "CREATE", "EQUAL", "0"})
		t.Success = append(t.Success, etcdOperation{etcdPut{key, one.value}})
	}
	var outcome etcdOutcome
	if err := e.post(ctx, "/v3/kv/txn", t, &outcome); err != nil {
		return err
	}
	if !outcome.Succeeded {
		return fmt.Errorf("create %s to %s: etcd has one of them already", all[0].key, all[len(all)-1].key)
	}
	return nil
}

func (e *etcd) post(ctx context.Context, path string, message, answer any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := e.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd says to %s: %s: %s", path, response.Status, text)
	}
	return json.Unmarshal(text, answer)
}
