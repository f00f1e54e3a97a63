package hns

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// fake has documents by the id of their object, in the form of a real HNS.
type fake struct {
	ids       []string
	documents map[string]string
	gone      string // an id that is removed as soon as it was listed
	broken    error
}

func (f *fake) list(kind, string) (string, error) {
	if f.broken != nil {
		return "", f.broken
	}
	return `["` + strings.Join(f.ids, `","`) + `"]`, nil
}

func (f *fake) properties(k kind, id, _ string) (string, error) {
	if id == f.gone {
		f.ids = slices.DeleteFunc(f.ids, func(i string) bool { return i == id })
	}
	if document, there := f.documents[id]; there && slices.Contains(f.ids, id) {
		return document, nil
	}
	return "", fmt.Errorf("HcnOpen%s failed with 0x803b0001", k)
}

const (
	flannel = `{"ID":"A1","Name":"vxlan0","Type":"Overlay","Ipams":[{"Type":"Static","Subnets":
		[{"IpAddressPrefix":"10.244.2.0/24"}]}],"Flags":0,"SchemaVersion":{"Major":2,"Minor":0}}`
	azure = `{"ID":"B2","Name":"azure","Type":"L2Bridge"}`
	nat   = `{"ID":"C3","Name":"nat","Type":"NAT"}`
)

func nodeOf(documents ...string) *fake {
	f := &fake{documents: map[string]string{}}
	for i, d := range documents {
		id := fmt.Sprintf("%c%d", 'A'+i, 1+i)
		f.ids = append(f.ids, id)
		f.documents[id] = d
	}
	return f
}

func TestNetworks(t *testing.T) {
	got, err := read[Network](nodeOf(flannel, azure, nat), networks)
	want := []Network{{"A1", "vxlan0", "Overlay"}, {"B2", "azure", "L2Bridge"}, {"C3", "nat", "NAT"}}
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("read %v, %v, want %v", got, err, want)
	}
	for i, want := range []struct{ overlay, pods bool }{{true, true}, {false, true}, {false, false}} {
		if n := got[i]; n.IsOverlay() != want.overlay || n.ForPods() != want.pods {
			t.Errorf("%s: overlay %t, for pods %t, want %+v", n, n.IsOverlay(), n.ForPods(), want)
		}
	}
}

// A load balancer has ports at its frontends' addresses, or without these at the node's.
func TestLoadBalancers(t *testing.T) {
	node := nodeOf(`{"ID":"E5","HostComputeEndpoints":["F6"],"FrontendVIPs":["10.96.0.10","fd00::a"],"PortMappings":
		[{"Protocol":6,"InternalPort":8080,"ExternalPort":80,"Flags":1},{"Protocol":17,"ExternalPort":53}]}`,
		`{"ID":"E6","PortMappings":[{"Protocol":6,"InternalPort":8080,"ExternalPort":30080}]}`)
	all, err := read[LoadBalancer](node, balancers)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(all), "[E5 (tcp 10.96.0.10:80, tcp [fd00::a]:80, udp 10.96.0.10:53, udp [fd00::a]:53) "+
		"E6 (tcp port 30080 of the node)]"; got != want {
		t.Errorf("read %s, want %s", got, want)
	}
	for at, want := range map[string]string{
		"tcp 10.96.0.10:80": "E5", "tcp [fd00::a]:80": "E5", "udp 10.96.0.10:53": "E5", "udp 10.96.0.10:80": "",
		"tcp 10.96.0.11:80": "", "tcp 0.0.0.0:30080": "E6", "tcp 0.0.0.0:30081": "", "tcp 10.96.0.10:30080": "",
	} {
		protocol, address, _ := strings.Cut(at, " ")
		got := ""
		for _, l := range all {
			if l.Takes(protocol, netip.MustParseAddrPort(address)) {
				got += l.ID
			}
		}
		if got != want {
			t.Errorf("%s is taken by %q, want %q", at, got, want)
		}
	}
}

// A network that is removed while it is read is left out; any other failure is an error that names the call.
func TestFailures(t *testing.T) {
	f := nodeOf(flannel, azure)
	f.gone = "A1"
	if got, err := read[Network](f, networks); err != nil || len(got) != 1 {
		t.Errorf("read %v, %v, want what is left", got, err)
	}
	f = nodeOf(azure, nat)
	delete(f.documents, "B2")
	if _, err := read[Network](f, networks); err == nil || !strings.Contains(err.Error(), "HcnOpenNetwork") {
		t.Errorf("error %v, want one that names the call", err)
	}
	if _, err := read[Network](nodeOf(`{"ID":"D4",`), networks); err == nil || !strings.Contains(err.Error(), "Network A1") {
		t.Errorf("error %v, want one that names the network", err)
	}
	if _, err := read[Network](&fake{broken: ErrMissing}, networks); !errors.Is(err, ErrMissing) {
		t.Errorf("error %v, want %v", err, ErrMissing)
	}
}

// What HNS has on nodes that were captured can be read.
func TestCaptured(t *testing.T) {
	files, err := filepath.Glob("../../portal/netshtest/testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var capture struct {
			HNS []struct {
				Kind     kind
				Document string
			}
		}
		if err := json.Unmarshal(bytes.TrimPrefix(text, []byte("\uFEFF")), &capture); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		documents := map[kind][]string{}
		for _, o := range capture.HNS {
			if o.Document != "" {
				documents[o.Kind] = append(documents[o.Kind], o.Document)
			}
		}
		all, err := read[Network](nodeOf(documents[networks]...), networks)
		if err != nil || slices.ContainsFunc(all, func(n Network) bool { return n.Type == "" || n.Name == "" }) {
			t.Errorf("%s: read %+v, %v", file, all, err)
		}
		left, err := read[LoadBalancer](nodeOf(documents[balancers]...), balancers)
		if err != nil || slices.ContainsFunc(left, func(l LoadBalancer) bool { return l.ID == "" || len(l.Ports) == 0 }) {
			t.Errorf("%s: read %+v, %v", file, left, err)
		}
	}
}

func TestDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		hang := make(chan struct{})
		defer close(hang)
		_, err := within(ctx, func() (int, error) { <-hang; return 0, nil })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

// Neither Linux nor Wine has HNS. On Windows without the feature "Containers" it may be missing too.
func TestThisHost(t *testing.T) {
	switch all, err := Networks(t.Context()); {
	case errors.Is(err, ErrMissing):
	case err != nil:
		t.Error(err)
	default:
		t.Logf("this host has %v", all)
	}
}
