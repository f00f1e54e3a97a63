package compare

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/portald/portald/proxy/kube/apiclient"
	"github.com/portald/portald/proxy/yamldocs"
)

// ReadFiles reads a dump of a cluster: files of objects and Lists in YAML or JSON, folders of such files (those that
// manifests are read from), and - for in. Kinds that do not count are skipped.
func ReadFiles(paths []string, in io.Reader) (*Objects, error) {
	o := &Objects{}
	for _, path := range paths {
		files, err := filesOf(path)
		if err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
		for _, file := range files {
			if err := o.readFile(file, in); err != nil {
				return nil, fmt.Errorf("read manifests from %s: %w", file, err)
			}
		}
	}
	if len(o.Services) == 0 {
		return nil, fmt.Errorf("read manifests from %q: they have no Service; dump some with kubectl get "+
			"services,endpointslices,nodes,pods,namespaces,networkpolicies -A -o yaml", paths)
	}
	o.Missing = missing(o)
	return o, nil
}

func filesOf(path string) ([]string, error) {
	if path == "-" {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	var out []string
	entries, err := os.ReadDir(path)
	for _, e := range entries {
		switch strings.ToLower(filepath.Ext(e.Name())) {
		case ".yaml", ".yml", ".json":
			if !strings.HasPrefix(e.Name(), ".") {
				out = append(out, filepath.Join(path, e.Name()))
			}
		}
	}
	return out, err
}

func (o *Objects) readFile(path string, in io.Reader) error {
	var text []byte
	var err error
	if path == "-" {
		text, err = io.ReadAll(in)
	} else {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return err
	}
	for _, doc := range yamldocs.Split(text) {
		object, _, err := doc.ToJSON()
		if err == nil && string(object) != "null" {
			err = o.decode(object)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", doc.Place(), err)
		}
	}
	return nil
}

func (o *Objects) decode(text []byte) error {
	object, _, err := apiclient.Codecs.UniversalDeserializer().Decode(text, nil, nil)
	switch {
	case runtime.IsNotRegisteredError(err):
		return nil // of an add-on
	case err != nil:
		return err
	case !meta.IsListType(object):
		o.add(object)
		return nil
	}
	items, err := meta.ExtractList(object)
	for i, item := range items {
		if unread, ok := item.(*runtime.Unknown); !ok {
			o.add(item)
		} else if err := o.decode(unread.Raw); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
	}
	return err
}

// missing are kinds of which a dump has none.
func missing(o *Objects) (out []string) {
	for _, kind := range []struct {
		name string
		some bool
		need string
	}{
		{"EndpointSlices", len(o.Slices) > 0, "endpoints were not compared"},
		{"NetworkPolicies", len(o.Policies) > 0, "if the cluster has some, dump them too"},
		{"Pods", len(o.Pods) > 0 || len(o.Policies) == 0, "NetworkPolicies were compared with the selectors of Services"},
	} {
		if !kind.some {
			out = append(out, kind.name+": none in the manifests; "+kind.need)
		}
	}
	return out
}
