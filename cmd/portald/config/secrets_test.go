package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"sigs.k8s.io/yaml"
)

const withSecrets = `apiVersion: portald.io/v1alpha1
kind: PortaldConfiguration
master: https://jane:hush@api:6443
connectionLog:
  path: '-'
  otlp:
    endpoint: https://collector:4318
    headers: ['Authorization=Bearer hush', 'X-Tenant=hush,hush']
`

func secretsFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	check(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// A configuration shows no secret: printed in any way, at /configz and /flagz, by config check, by a reload.
func TestSecretsAreNotShown(t *testing.T) {
	var out bytes.Buffer
	path := secretsFile(t, withSecrets)
	cfg, warnings, err := complete(t, "--config", path)
	check(t, err)
	fmt.Fprintf(&out, "%v %+v %#v %v %v\n", cfg, cfg, cfg, *cfg, warnings)
	for _, value := range []any{cfg, cfg.Documents(), cfg.API, cfg.ConnectionLog} {
		asJSON, err := json.Marshal(value)
		check(t, err)
		asYAML, err := yaml.Marshal(value)
		check(t, err)
		out.Write(append(asJSON, asYAML...))
		log := logrus.New()
		log.SetOutput(&out)
		log.WithField("cfg", value).Info(value)
	}
	_, err = Check(path, &out)
	check(t, err)

	flags := newFlags("linux")
	check(t, allFlags(flags).Parse([]string{"--master=https://hush:hush@api", "--connection-log-otlp-headers",
		`A=hush,"B=hush,hush"`, "--connection-log-otlp-headers=hush", "--connection-log-otlp-endpoint=https://u:hush@c"}))
	fmt.Fprintln(&out, flags.Values())
	for _, s := range flags.Sections() {
		fmt.Fprintln(&out, s.Flags.FlagUsages())
	}
	_, _, err = flags.Complete() // two of these are mistakes
	fmt.Fprintln(&out, err)

	for _, was := range []string{"Bearer hush", "X-Tenant=hush", "jane:hush"} {
		other, _, err := complete(t, "--config", secretsFile(t, strings.Replace(withSecrets, was, was+"2", 1)))
		check(t, err)
		changes := cfg.Reload(other)
		if len(changes.Restart) != 1 || !strings.Contains(changes.Restart[0], " changed: takes effect at the next start") {
			t.Errorf("%s is another one: %+v", was, changes)
		}
		fmt.Fprintln(&out, changes)
	}
	if strings.Contains(out.String(), "hush") {
		t.Errorf("there is a secret in\n%s", out.String())
	}
	for _, want := range []string{`"master":"https://REDACTED@api:6443"`,
		`"headers":["Authorization=REDACTED","X-Tenant=REDACTED"]`, "[A=REDACTED,B=REDACTED,REDACTED]"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %s in\n%s", want, out.String())
		}
	}
}

// Mistakes around a secret are told without it.
func TestMistakesShowNoSecret(t *testing.T) {
	for _, text := range []string{
		"connectionLog: {otlp: {headers: 'Authorization=hush'}}",
		"connectionLog: {otlp: {headers: {Authorization: hush}}}",
		"connectionLog: {otlp: {headers: [{Authorization: hush}]}}",
		"connectionLog: {otlp: {headers: ['Authorization: hush']}}",
		"connectionLog: {otlp: {headers: [[hush]]}}",
		"connectionLog: {otlp: {headers: [hush]}}",
		"connectionLog: {otlp: [hush]}",
		"connectionLog: {otlp: hush}",
		"connectionLog: [{otlp: hush}]",
		"connectionLog: {otlp: {endpoint: 'https://jane:hush@collector'}}",
		"connectionLog: {otlp: {endpoint: 'https://collector/?token=hush'}}",
		"connectionLog: {otlp: {endpoint: 'jane:hush@collector'}}",
		"connectionLog: {otlp: {endpoint: [hush]}}",
		"manifests: [a]\nmaster: 'https://jane:hush@api'",
		"master: {url: hush}",
	} {
		var out bytes.Buffer
		path := secretsFile(t, "apiVersion: portald.io/v1alpha1\nkind: PortaldConfiguration\n"+text+"\n")
		_, warnings, err := complete(t, "--config", path)
		_, checked := Check(path, &out)
		if err == nil || checked == nil {
			t.Errorf("%s is accepted", text)
		}
		if all := fmt.Sprint(warnings, err, checked, out.String()); strings.Contains(all, "hush") {
			t.Errorf("%s: there is a secret in\n%s", text, all)
		}
	}
}

// So are mistakes of flags, and a line of them.
func TestFlagsShowNoSecret(t *testing.T) {
	for _, args := range [][]string{
		{"-connection-log-otlp-headers=Authorization=hush"},
		{"---connection-log-otlp-headers=Authorization=hush"},
		{"--connection-log-otlp-header=Authorization=hush"},
		{"--=hush"},
	} {
		err := allFlags(NewFlags()).Parse(args)
		if err == nil || strings.Contains(FlagError(err).Error(), "hush") {
			t.Errorf("%v: %v", args, FlagError(err))
		}
	}
	line := []string{"portald", "--connection-log-otlp-headers", "Authorization=hush", "--master=https://hush@api", "-v=2",
		"--connection-log-otlp-headers=A=hush,hush", "--config", "x", "--master"}
	want := []string{"portald", "--connection-log-otlp-headers", "[Authorization=REDACTED]",
		"--master=https://REDACTED@api", "-v=2", "--connection-log-otlp-headers=[A=REDACTED,REDACTED]", "--config", "x",
		"--master"}
	if got := ShownLine(line); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// A configuration that is written to be read again has the secrets, and only its user may read it.
func TestWrittenSecrets(t *testing.T) {
	cfg, _, err := complete(t, "--config", secretsFile(t, withSecrets))
	check(t, err)
	path := filepath.Join(t.TempDir(), "written.yaml")
	check(t, cfg.Write(path))
	again, _, err := complete(t, "--config", path)
	check(t, err)
	if d := diff(cfg.ConnectionLog, again.ConnectionLog) + diff(cfg.API, again.API); d != "" {
		t.Error(d)
	}
	if strings.Contains(fmt.Sprintf("%+v", cfg), "hush") {
		t.Error("after it was written, it is printed with secrets")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 && os.PathSeparator == '/' {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
