package secret

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// Headers and URLs as they are printed, valid or not.
func TestShown(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		"Authorization=Bearer hush":        "Authorization=REDACTED",
		"X-Key=hu=sh":                      "X-Key=REDACTED",
		"Authorization: Bearer hush":       "REDACTED",
		"X-Empty=":                         "X-Empty=REDACTED",
		"=hush":                            "=REDACTED",
		"Basic aHVzaA":                     "REDACTED",
		"Authorization=Bearer\x1b[31mhush": "Authorization=REDACTED",
	} {
		if got := NewHeader(text).String(); got != want || NewHeader(text).Reveal() != text {
			t.Errorf("header %q is shown as %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"":                                "",
		"https://api:6443":                "https://api:6443",
		"https://[2001:db8::1]:6443/base": "https://[2001:db8::1]:6443/base",
		"https://jane:hush@api:6443/base": "https://REDACTED@api:6443/base",
		"https://hush@api":                "https://REDACTED@api",
		"https://jane:hu@sh@api":          "https://REDACTED@api",
		"https://jane:hu?sh@api/x":        "https://REDACTED@api/x",
		"https://jane:hu#sh@api/x":        "https://REDACTED@api/x",
		"https://jane:hush@api:port/%zz":  "https://REDACTED@api:port/%zz",
		"jane:hush@api:6443":              "REDACTED@api:6443",
		"https://api/?token=hush":         "https://api/?REDACTED",
		"https://api/?mail=hu@sh":         "https://REDACTED@sh",
		"https://api/#hush":               "https://api/#REDACTED",
		"api:6443":                        "api:6443",
	} {
		if got := NewURL(text).String(); got != want || NewURL(text).Reveal() != text {
			t.Errorf("URL %q is shown as %q, want %q", text, got, want)
		}
	}
}

// No printer shows the secret, be it in a field that is exported or not, behind a pointer, or the key of a map.
func TestNoPrinterShowsIt(t *testing.T) {
	type config struct {
		Header  Header
		Headers []Header
		URL     *URL
		hidden  []Header
		url     URL
	}
	url := NewURL("https://jane:hush@api?token=hush")
	all := []Header{NewHeader("Authorization=hush"), NewHeader("hush")}
	c := config{all[0], all, &url, all, url}
	var out bytes.Buffer
	values := []any{c, &c, []any{c}, map[string]any{"c": c}, url, &url, all, all[0], fmt.Errorf("%w: %v", errSome, c)}
	for _, value := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T"} {
			fmt.Fprintf(&out, verb+"\n", value)
		}
		fmt.Fprintln(&out, value)
		for _, formatter := range []logrus.Formatter{&logrus.TextFormatter{}, &logrus.JSONFormatter{}} {
			log := logrus.New()
			log.SetOutput(&out)
			log.SetFormatter(formatter)
			log.WithField("value", value).Info(value)
		}
		slog.New(slog.NewJSONHandler(&out, nil)).Info("slog", "value", value)
		slog.New(slog.NewTextHandler(&out, nil)).Info("slog", "value", value)
		asJSON, err := json.Marshal(value)
		if err != nil {
			t.Error(err)
		}
		asYAML, err := yaml.Marshal(value)
		if err != nil {
			t.Error(err)
		}
		out.Write(append(asJSON, asYAML...))
	}
	var flag pflag.Value = &url
	fmt.Fprintln(&out, flag.String(), pflag.Flag{Name: "x", Value: flag})
	for _, hush := range []string{"hush", fmt.Sprintf("%x", "hush"), fmt.Sprintf("%v", []byte("hush"))} {
		if bytes.Contains(out.Bytes(), []byte(hush)) {
			t.Errorf("it prints %q:\n%s", hush, out.Bytes())
		}
	}
}

var errSome = fmt.Errorf("some error")

// Values are read from JSON and YAML, and written as they are where that is asked for.
func TestReadAndWritten(t *testing.T) {
	type config struct {
		URL     URL      `json:"url,omitzero"`
		Headers []Header `json:"headers,omitempty"`
	}
	const text = "headers:\n- a=<hush>\nurl: https://jane:hush@api\n"
	var c config
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	c.URL, c.Headers[0] = c.URL.Opened(), c.Headers[0].Opened()
	if written, err := yaml.Marshal(c); err != nil || string(written) != text {
		t.Errorf("%s, %v", written, err)
	}
	if written, err := yaml.Marshal(config{}); err != nil || string(written) != "{}\n" {
		t.Errorf("%s, %v", written, err)
	}
	if !c.URL.Equal(NewURL("https://jane:hush@api")) || c.URL.Equal(NewURL("https://jane:other@api")) {
		t.Error("equal")
	}
}
