package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/encoding/unicode"
)

// The output of `portald config check` for each file in testdata. UPDATE_GOLDEN=1 writes the expectation again.
func TestCheck(t *testing.T) {
	t.Chdir("testdata")
	files, err := filepath.Glob("*.yaml")
	check(t, err)
	if len(files) == 0 {
		t.Fatal("no files")
	}
	for _, path := range files {
		var out strings.Builder
		if _, err := checkFor(systemOf(path), path, &out); err != nil {
			out.WriteString("error: " + err.Error() + "\n")
		}
		golden := strings.TrimSuffix(path, ".yaml") + ".check"
		if os.Getenv("UPDATE_GOLDEN") != "" {
			check(t, os.WriteFile(golden, []byte(out.String()), 0o644))
		}
		want, err := os.ReadFile(golden)
		check(t, err)
		if d := cmp.Diff(string(want), out.String()); d != "" {
			t.Errorf("%s (-want +got)\n%s", path, d)
		}
	}
}

// systemOf is the system that a file is for, Linux unless its name says windows.
func systemOf(path string) string {
	if strings.HasPrefix(path, "windows") {
		return "windows"
	}
	return "linux"
}

// The file that kubeadm writes is accepted as it is, without a warning about values that nobody chose.
func TestFilesOfKubeadm(t *testing.T) {
	for file, want := range map[string][]string{
		"kubeadm-1.25.yaml": nil,
		"kubeadm-1.36.yaml": nil,
		"kubeadm-1.37.yaml": nil, // mode iptables, which it writes by itself
		"kubeadm-1.30.yaml": nil, // mode ipvs, with settings of its own
	} {
		c, warnings, err := complete(t, "--config=testdata/"+file, "--hostname-override=node-a")
		check(t, err)
		if c.API.Kubeconfig != "/var/lib/kube-proxy/kubeconfig.conf" || len(c.DetectLocal.CIDRs) == 0 {
			t.Errorf("%s: %+v", file, c)
		}
		if len(warnings) != len(want) {
			t.Errorf("%s: warned %q, want %q", file, warnings, want)
		}
		for i := range min(len(want), len(warnings)) {
			if !strings.Contains(warnings[i], want[i]) {
				t.Errorf("%s: warned %q, want %q", file, warnings[i], want[i])
			}
		}
	}
}

func TestRefusedFiles(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"nothing":        {"", "FILE: has no document"},
		"comments":       {"# nothing\n---\n# more\n", "FILE: has no document"},
		"no YAML":        {kubeHead + "mode: {\n", "FILE: document 1 (line 1): yaml: line 4: "},
		"no YAML, later": {kubeHead + "---\n" + portaldHead + "log: ]\n", "FILE: document 2 (line 4): yaml: line 6: "},
		"odd separator":  {kubeHead + "--- {}\n", "FILE: document 2 (line 3): apiVersion <none>"},
		"text":           {"portald", "FILE: document 1 (line 1): is not a mapping of fields"},
		"list":           {"- a\n", "FILE: document 1 (line 1): is not a mapping of fields"},
		"no kind": {"mode: iptables\n", "FILE: document 1 (line 1): apiVersion <none>, kind <none>: must be " +
			"kubeproxy.config.k8s.io/v1alpha1 KubeProxyConfiguration or"},
		"other version": {"apiVersion: kubeproxy.config.k8s.io/v1beta1\nkind: KubeProxyConfiguration\n",
			"apiVersion kubeproxy.config.k8s.io/v1beta1, kind KubeProxyConfiguration: must be"},
		"the ConfigMap": {"apiVersion: v1\nkind: ConfigMap\n", "use the file that is in the ConfigMap"},
		"two of a kind": {kubeHead + "---\n" + portaldHead + "---\n" + kubeHead,
			"FILE: document 3 (line 7): is a second KubeProxyConfiguration beside document 1"},
		"group": {kubeHead + "iptables: 1\n",
			"FILE: document 1 (KubeProxyConfiguration): iptables: 1: must be a mapping of fields"},
		"number": {kubeHead + "clientConnection: {burst: many}\n",
			"clientConnection.burst: many: must be a whole number"},
		"large number": {kubeHead + "oomScoreAdj: 3000000000\n",
			"oomScoreAdj: 3000000000: must be a whole number that is not too large"},
		"text that is none": {kubeHead + "hostnameOverride: 7\n", "hostnameOverride: 7: must be a text; put it into quotes"},
		"time":              {portaldHead + "udpTimeout: 30\n", "udpTimeout: 30: must be a time with its unit"},
		"list that is none": {portaldHead + "nodeIPs: 192.0.2.1\n", "nodeIPs: 192.0.2.1: must be a list"},
		"gates":             {kubeHead + "featureGates: {A: maybe}\n", "must be a mapping of names, each to true or false"},
		"unknown, ours": {portaldHead + "connectionLog: {file: x}\n",
			"FILE: document 1 (PortaldConfiguration): connectionLog.file: there is no such field"},
		"wrong case, ours": {portaldHead + "udptimeout: 1s\n", "udptimeout: there is no such field"},
		"twice, ours": {portaldHead + "master: a\nmaster: b\n",
			`FILE: document 1 (PortaldConfiguration): line 4: key "master" is there twice`},
		"twice, twice": {portaldHead + "master: a\nmaster: b\nlog: {level: info, level: warn}\n",
			`line 5: key "level" is there twice`},
		"twice, later": {kubeHead + "---\n" + portaldHead + "master: a\nmaster: b\n",
			"FILE: document 2 (PortaldConfiguration): line 7: key"},
		"text behind the document": {"  " + strings.ReplaceAll(kubeHead, "\n", "\n  ") + "mode: ipvs\nbindAddress: ::\n",
			"FILE: document 1 (line 1): yaml: line 4: did not find expected <document start>: the document ends above"},
		"two without a separator": {"{apiVersion: a}\n{kind: b}\n", "FILE: document 1 (line 1): yaml: line 2: "},
		"another behind dots":     {kubeHead + "...\nmode: ipvs\n", "FILE: document 2 (line 4): apiVersion <none>"},
		"UTF-16 cut off":          {"\xff\xfek\x00i", "FILE: document 1 (line 1): line 1: is not UTF-16LE"},
		"NUL":                     {kubeHead + "mode: \x00", "FILE: document 1 (line 1): line 3: has the control character"},
		"a list for a text":       {kubeHead + "mode: [ipvs]\n", "mode: ipvs: must be a text, not a list"},
		"empty name":              {portaldHead + `"": 1`, "there is no such field"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := inFile(t, test.text)
			_, _, err := complete(t, "--config", path, "--kubeconfig=x")
			if want := strings.ReplaceAll(test.want, "FILE", path); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("said %v\nwant %s", err, want)
			}
		})
	}
}

// Fields that this release of kube-proxy does not know are warned about, those that stand there twice too.
func TestLenientWithKubeProxy(t *testing.T) {
	path := inFile(t, kubeHead+"fresh: 1\niptables: {snatNodeInternalIP: null, SyncPeriod: 1s}\nmasqueradeAll: "+
		"true\nclusterCIDR: 10.0.0.0/8\nclusterCIDR: 10.1.0.0/16\n"+
		"logging: {vmodule: [{filePattern: a, verbosity: 1, color: red}]}\n")
	c, warnings, err := complete(t, "--config", path, "--kubeconfig=x", "--manifests=y")
	check(t, err)
	if len(c.DetectLocal.CIDRs) != 1 || c.DetectLocal.CIDRs[0].String() != "10.1.0.0/16" {
		t.Errorf("inside: %+v", c.DetectLocal)
	}
	at := path + ": document 1 (KubeProxyConfiguration): "
	want := []string{
		at + `line 7: key "clusterCIDR" is there twice; the last one is used`,
		at + "fresh: there is no such field; it has no effect",
		at + "iptables.SyncPeriod: there is no such field; it has no effect",
		at + `logging.vmodule[0]: unknown field "color"; it has no effect`,
		at + "masqueradeAll: there is no such field; it has no effect",
		"no effect beside the KubeProxyConfiguration of " + path + ": --kubeconfig",
		at + "no effect: logging.vmodule; see portald config check " + path,
	}
	if d := cmp.Diff(want, warnings); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// FuzzLoad: nothing makes reading panic, and what is accepted is the same when it is written and read again.
func FuzzLoad(f *testing.F) {
	for _, text := range []string{
		kubeHead + "mode: ipvs\nipvs: {syncPeriod: 5s}\n---\n" + portaldHead + "retries: 1\n",
		kubeHead + "bindAddress: ::1\nportRange: 20+5\nmode: userspace\nudpIdleTimeout: 1s\n",
		kubeHead + "healthzBindAddress: 0.0.0.0:0\nnodePortAddresses: [primary]\n",
		portaldHead + "connectTimeouts: [1s]\nnodeIPs: [192.0.2.1]\nlog: {level: warn}\n",
	} {
		f.Add([]byte(text)) // small ones: the time is for fuzzing, not for making large ones small
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		made, ok := ofText(text)
		if !ok {
			return
		}
		written, err := made.documents.encode()
		check(t, err)
		again, ok := ofText(written)
		if !ok {
			t.Fatalf("what was written is refused:\n%s", written)
		}
		if d := diff(made, again); d != "" {
			t.Errorf("(-first +again)\n%s\nof\n%s", d, written)
		}
	})
}

// ofText makes a configuration of a file's text alone.
func ofText(text []byte) (*Config, bool) {
	d := newDraft("linux")
	d.use(load("config.yaml", text))
	d.setDefaults()
	d.check()
	if len(d.errs) > 0 {
		return nil, false
	}
	return d.resolve(), true
}

// A file in any encoding of YAML and with any line ends is the same configuration.
func TestEncodings(t *testing.T) {
	text := kubeHead + "clusterCIDR: 10.0.0.0/8\n---\n" + portaldHead + "retries: 3\n"
	utf16, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String(text)
	check(t, err)
	want, ok := ofText([]byte(text))
	for name, raw := range map[string]string{
		"PowerShell": utf16, "without a mark": utf16[2:], "Mac": strings.ReplaceAll(text, "\n", "\r"),
		"Windows": "\ufeff" + strings.ReplaceAll(text, "\n", "\r\n"), "mixed": strings.ReplaceAll(text, "---\n", "---\r"),
		"end marks": strings.ReplaceAll(text, "---\n", "...\n---\n"),
	} {
		got, read := ofText([]byte(raw))
		if !ok || !read {
			t.Errorf("%s: refused", name)
			continue
		}
		got.text, want.text = nil, nil
		if d := diff(want, got); d != "" {
			t.Errorf("%s (-want +got)\n%s", name, d)
		}
	}
}

// Ports that may be node ports are warned of, by the field or flag that has them.
func TestRangeOfNodePorts(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string // part of the only warning
	}{
		{[]string{"--config", inFile(t, kubeHead+"portRange: 30000-32767\n")}, "portRange: 30000-32767: overlaps"},
		{[]string{"--config", inFile(t, kubeHead+"portRange: 20000+12000\n")}, "portRange: 20000-32000: overlaps"},
		{[]string{"--config", inFile(t, portaldHead+"proxyPortRange: 32767-40000\n")},
			"proxyPortRange: 32767-40000: overlaps"},
		{[]string{"--proxy-port-range=30000-30100"}, "--proxy-port-range: 30000-30100: overlaps the node ports 30000-32767"},
		{[]string{"--proxy-port-range=32768-40000"}, ""}, {[]string{"--proxy-port-range=1000-29999"}, ""}, {nil, ""},
	} {
		_, warnings, err := complete(t, append(c.args, "--master=x")...)
		check(t, err)
		said := strings.Join(warnings, "\n")
		if len(warnings) > 1 || (said != "") != (c.want != "") || !strings.Contains(said, c.want) {
			t.Errorf("%v: warned %q, want %q", c.args, warnings, c.want)
		}
	}
}
