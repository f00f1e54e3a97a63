package config

import (
	"strconv"
	"strings"
	"testing"

	"github.com/portald/portald/portal/service"
)

// sample is a value that is not the default, as a flag and an annotation write it, and as a file does.
func sample(value service.Value) (text, yaml string) {
	switch v := value.(type) {
	case service.Times:
		return "300ms,7s", "[300ms, 7s]"
	case service.Timeout:
		return "7s", "7s"
	case service.Count:
		return "7", "7"
	case service.Ratio:
		return "1/7", "1/7"
	case service.Choice:
		last := v.Words[len(v.Words)-1]
		return last, strconv.Quote(last) // off alone is a boolean of YAML
	case service.Removals:
		return "reset-after=7s", "reset-after=7s"
	case service.Ages:
		return "7m0s±20%", "7m±20%"
	case service.Words:
		all := strings.Join(v.Words, ",")
		return all, all
	}
	return "", ""
}

// One entry of the table makes a field, a flag and an annotation, which all set the same, and which is written out
// again.
func TestServiceSettings(t *testing.T) {
	for _, s := range service.Settings() {
		if s.Field == "" {
			continue
		}
		text, yaml := sample(s.Value)
		var annotated service.Port
		if !s.Value.Read(text, &annotated) {
			t.Errorf("%s: an annotation of %s is refused", s.Name, text)
		}
		want := annotated.Policy.Or(service.DefaultPolicy())
		if want.Equal(service.DefaultPolicy()) {
			t.Errorf("%s sets nothing", s.Name)
		}
		written := inFile(t, "")
		for _, args := range [][]string{
			{"--" + s.FlagName() + "=" + text},
			{"--config=" + inFile(t, portaldHead+s.Field+": "+yaml+"\n")},
			{"--config=" + written},
		} {
			cfg, _, err := complete(t, append(args, "--master=https://192.0.2.1")...)
			check(t, err)
			if !cfg.Settings.Policy.Equal(want) {
				t.Errorf("%v: %+v, want %+v", args, cfg.Settings.Policy, want)
			}
			check(t, cfg.Write(written))
		}
	}
}

// off needs no quotes in a file.
func TestOffInFile(t *testing.T) {
	file := inFile(t, portaldHead+"kernelRecords: off\nconnectionLogRecords: off\n")
	cfg, _, err := complete(t, "--config="+file, "--master=https://192.0.2.1")
	check(t, err)
	if p := cfg.Settings.Policy; p.KernelRecords != service.RecordsOff || p.Logging.Records != service.RecordsOff {
		t.Errorf("%+v", p)
	}
	_, _, err = complete(t, "--config="+inFile(t, portaldHead+"clientAddress: off\n"), "--master=https://192.0.2.1")
	if err == nil {
		t.Error("clientAddress: off is taken")
	}
}
