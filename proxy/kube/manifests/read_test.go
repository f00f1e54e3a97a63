package manifests

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	"golang.org/x/text/encoding/unicode"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kube/objecttest"
	"github.com/portald/portald/proxy/kube/translate"
)

// sliceOf is an EndpointSlice of a Service in the namespace of svc.
func sliceOf(name, addr string) string {
	return fmt.Sprintf("---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: %s-1\n"+
		"  namespace: shop\n  labels: {kubernetes.io/service-name: %s}\naddressType: IPv4\nports: [{port: 8080}]\n"+
		"endpoints: [{addresses: [%s]}]\n", name, name, addr)
}

// readOnce reads files of these contents by Read, and returns what is served and what was said.
func readOnce(t *testing.T, texts ...string) (served string, warnings []string, err error) {
	t.Helper()
	var paths []string
	dir := t.TempDir()
	for i, text := range texts {
		paths = append(paths, filepath.Join(dir, fmt.Sprintf("%d.yaml", i)))
		write(t, paths[i], text)
	}
	log, hook := logtest.NewNullLogger()
	store := service.NewStore()
	err = New(paths, translate.NewCache(store, translate.Options{}, log), log).Read(t.Context())
	for _, text := range objecttest.Messages(hook, logrus.WarnLevel) {
		warnings = append(warnings, strings.ReplaceAll(text, dir+string(filepath.Separator), ""))
	}
	return objecttest.All(store), warnings, err
}

// A Service and its slice are there whatever the encoding and line ends.
func TestEncodingsAndLineEnds(t *testing.T) {
	text := svc("a", "10.96.0.1") + sliceOf("a", "10.244.0.1")
	want, _, err := readOnce(t, text)
	check(t, err)
	if !strings.Contains(want, "10.244.0.1:8080") {
		t.Fatal(want)
	}
	encoder := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder()
	utf16, err := encoder.String(strings.ReplaceAll(text, "\n", "\r\n"))
	check(t, err)
	for name, text := range map[string]string{
		"PowerShell": utf16, "UTF-16 without a mark": utf16[2:], "Mac": strings.ReplaceAll(text, "\n", "\r"),
		"mixed":               strings.ReplaceAll(text, "---\n", "---\r"),
		"mark of the end":     strings.Replace(text, "\n---\n", "\n...\n---\n", 1),
		"without a separator": strings.Replace(text[len("---\n"):], "\n---\n", "\n...\n", 1),
	} {
		got, warnings, err := readOnce(t, text)
		if err != nil || len(warnings) > 0 || got != want {
			t.Errorf("%s: %v %v\n%s", name, err, warnings, cmp.Diff(want, got))
		}
	}
}

// Read returns what cannot be read, by file, document and line; the rest is there.
func TestReadReturnsWhatIsRefused(t *testing.T) {
	good, wrong := svc("a", "10.96.0.1"), strings.Replace(svc("b", "10.96.0.2"), "port: 80", "port: x", 1)
	for name, c := range map[string]struct{ text, want string }{
		"no YAML":              {good + "---\nkind: [\n", "0.yaml: document 2 (line 12): yaml: line 13: did not find"},
		"a field":              {good + wrong, "document 2 (line 12): service shop/b: spec.ports.port"},
		"a lost indentation":   {good + "---\n  spec: {}\n  kind: A\nspec: {}\n", "document 2 (line 12): yaml: line 14"},
		"two in one document":  {good + "---\n{kind: A}\n{kind: B}\n", "document 2 (line 12): yaml: line 13"},
		"NUL":                  {good + "---\nkind: \x00\n", "(line 12): line 12: has the control character U+0000"},
		"cut off in JSON":      {good + "---\n{\"kind\": ", "document 2 (line 12): the file ends inside it"},
		"cut off in UTF-16":    {"k\x00:\x00\n\x00 ", "document 1 (line 1): line 2: is not UTF-16LE"},
		"a document of a list": {good + "---\n- kind: Service\n", "document 2 (line 12): the document: is a list"},
		"a number":             {good + "---\n7\n", "document 2 (line 12): the document: is a number"},
	} {
		served, warnings, err := readOnce(t, c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: returned %v, want %s", name, err, c.want)
		}
		if strings.HasPrefix(c.text, good) != strings.Contains(served, "10.96.0.1") || len(warnings) > 1 {
			t.Errorf("%s: serves %q, said %q", name, served, warnings)
		}
	}
}

// A file with many mistakes does not flood the terminal.
func TestReadReturnsABoundedError(t *testing.T) {
	_, _, err := readOnce(t, strings.Repeat("---\nkind: [\n", 1000))
	if err == nil || strings.Count(err.Error(), "\n") != 20 || !strings.HasSuffix(err.Error(), "\nand 980 more") {
		t.Error(err)
	}
}

// Objects that leave a Service without endpoints are reported by name.
func TestWhatIsNotReadIsSaid(t *testing.T) {
	a, slice := svc("a", "10.96.0.1"), sliceOf("a", "10.244.0.1")
	endpoints := "---\napiVersion: v1\nkind: Endpoints\nmetadata: {name: a, namespace: shop}\n"
	list := "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(endpoints[len("---\n"):], "\n", "\n  ") + "\n"
	const (
		noEndpoints = "endpoints shop/a: kind Endpoints is not read, and there is no EndpointSlice of the Service: write one"
		nothing     = "No object in the manifests: 0.yaml"
		proxyName   = "labels: {service.kubernetes.io/service-proxy-name: x}\n  namespace:"
	)
	for name, c := range map[string]struct {
		texts []string
		want  []string
	}{
		"Endpoints": {[]string{a + endpoints},
			[]string{"0.yaml: document 2 (line 12): " + noEndpoints}},
		"Endpoints beside a slice, as in a dump": {[]string{a + endpoints + slice}, nil},
		"Endpoints in a List": {[]string{list}, []string{"0.yaml: document 1, item 1 (line 4): " + noEndpoints,
			nothing}},
		"names": {[]string{a + strings.Replace(sliceOf("a", "host.example"), "IPv4", "FQDN", 1)},
			[]string{"endpointslice shop/a-1: addressType: \"FQDN\": no service proxy resolves names, kube-proxy neither: " +
				"the slice is ignored; write IP addresses, with addressType IPv4 or IPv6"}},
		"a slice of another file":    {[]string{slice, a}, nil},
		"a slice of a headless one":  {[]string{svc("a", "None") + slice}, nil},
		"a slice of another proxy's": {[]string{strings.Replace(a, "namespace:", proxyName, 1) + slice}, nil},
		"slices of no Service": {[]string{sliceOf("b", "10.244.0.1") + a},
			[]string{"Not used, since the manifests do not have the Service: endpointslice shop/b-1 of service shop/b; " +
				"check the label kubernetes.io/service-name and the namespace"}},
		"nothing": {[]string{"# to be written\n"}, []string{nothing}},
	} {
		t.Run(name, func(t *testing.T) {
			_, warnings, err := readOnce(t, c.texts...)
			check(t, err)
			if diff := cmp.Diff(c.want, warnings); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// A file that cannot be read any more keeps what it had, says so, and is counted until it can be read.
func TestRefusedFilesAreCounted(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "B.YML")
	good := svc("a", "10.96.0.1")
	write(t, path, good)
	write(t, other, svc("b", "10.96.0.2"))
	m, store := loaded(t, dir)
	served := func() string {
		ports, _ := store.All()
		return fmt.Sprint(len(ports), " refused ", m.Refused())
	}
	read := func(text string) {
		t.Helper()
		write(t, path, text)
		m.update([]*reading{{file: m.locations[0].file(path)}})
	}
	log, hook := logtest.NewNullLogger()
	m.log = log
	if got := served(); got != "2 refused 0" {
		t.Fatal(got)
	}
	for _, bad := range []string{"\x00\x00", "kind: [", "k\x00\n\x00i", "- a", good[:len(good)-9] + "\t"} {
		read(bad)
		if got := served(); got != "2 refused 1" {
			t.Errorf("%q: %s", bad, got)
		}
	}
	said := strings.Join(objecttest.Messages(hook, logrus.WarnLevel), "\n")
	kept := path + ": objects that it had before and that may be in what cannot be read are served as they were: 1"
	if strings.Count(said, kept) != 1 {
		t.Error("said", said)
	}
	read(good)
	if got := served(); got != "2 refused 0" {
		t.Error(got)
	}
}
