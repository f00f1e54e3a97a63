package otlp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

const (
	logsPath       = "/v1/logs"
	defaultURL     = "https://localhost:4318" + logsPath
	defaultTimeout = 10 * time.Second // of one request
)

// settings are how requests are sent.
type settings struct {
	url     string
	header  http.Header
	timeout time.Duration
	gzip    bool
	tls     *tls.Config // nil: that of net/http
}

// environment reads the variables that OpenTelemetry's specification names.
type environment struct{ unread int }

// settings reads the variables OTEL_EXPORTER_OTLP_LOGS_*, for logs, or else OTEL_EXPORTER_OTLP_*, for all signals.
func (e *environment) settings() settings {
	s := settings{url: defaultURL, header: http.Header{}, timeout: defaultTimeout}
	if !e.read("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", func(text string) error { return s.setURL(text, "") }) {
		e.read("OTEL_EXPORTER_OTLP_ENDPOINT", func(text string) error { return s.setURL(text, logsPath) })
	}
	e.either("HEADERS", s.setHeaders)
	e.either("TIMEOUT", func(text string) error {
		ms, err := strconv.Atoi(text)
		s.timeout = time.Duration(ms) * time.Millisecond
		return err
	})
	e.either("COMPRESSION", func(text string) error {
		if s.gzip = text == "gzip"; !s.gzip && text != "none" {
			return fmt.Errorf("unknown compression %q", text)
		}
		return nil
	})
	var files tlsFiles
	set := func(to *string) func(string) error {
		return func(text string) error {
			*to = text
			return nil
		}
	}
	e.either("CERTIFICATE", set(&files.ca))
	e.either("CLIENT_CERTIFICATE", set(&files.cert))
	e.either("CLIENT_KEY", set(&files.key))
	if config, err := files.config(); err == nil {
		s.tls = config
	} else {
		e.unread++
	}
	return s
}

// resource returns the attributes that the environment gives to all records.
func (e *environment) resource() map[string]string {
	out := map[string]string{}
	e.read("OTEL_RESOURCE_ATTRIBUTES", func(text string) error { return readPairs(text, out) })
	return out
}

// either reads the variable of logs, or else that of all signals.
func (e *environment) either(name string, read func(text string) error) {
	if !e.read("OTEL_EXPORTER_OTLP_LOGS_"+name, read) {
		e.read("OTEL_EXPORTER_OTLP_"+name, read)
	}
}

// read tells whether a variable is set and can be read.
func (e *environment) read(name string, read func(text string) error) bool {
	text := os.Getenv(name)
	if text == "" {
		return false
	}
	err := read(text)
	if err != nil {
		e.unread++
	}
	return err == nil
}

// setURL takes an endpoint; below is the path of logs in it.
func (s *settings) setURL(endpoint, below string) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	if u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("not a URL")
	}
	s.url = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: path.Join("/", u.Path, below)}).String()
	return nil
}

func (s *settings) setHeaders(text string) error {
	pairs := map[string]string{}
	err := readPairs(text, pairs)
	for name, value := range pairs {
		if !httpguts.ValidHeaderFieldName(name) {
			err = errors.Join(err, fmt.Errorf("invalid header %q", name))
			continue
		}
		s.header.Set(name, value)
	}
	return err
}

// readPairs reads NAME=VALUE, separated by commas, where characters may be %XX. It goes on after what cannot be read.
func readPairs(text string, to map[string]string) (err error) {
	for pair := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(pair, "=")
		value, unescaped := url.PathUnescape(value)
		if !ok || unescaped != nil {
			err = errors.Join(err, unescaped, fmt.Errorf("%q is not NAME=VALUE", pair))
			continue
		}
		to[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return err
}
