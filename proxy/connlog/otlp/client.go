package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	"google.golang.org/protobuf/proto"

	"github.com/portald/portald/platform/backoff"
	"github.com/portald/portald/platform/printable"
)

// The pause before a batch is sent again doubles from the first to the last, and a random part of up to half is added.
const (
	firstPause = 5 * time.Second
	lastPause  = 30 * time.Second
)

const (
	contentType   = "application/x-protobuf"
	responseSize  = 1 << 20 // bytes of an answer that are read
	responseShown = 256     // bytes of it in an error
)

// client sends requests to a collector. The specification says what is sent again:
// https://opentelemetry.io/docs/specs/otlp/#otlphttp.
type client struct {
	http     http.Client
	settings settings
}

func newClient(s settings, version string) *client {
	s.header.Set("Content-Type", contentType)
	s.header.Set("User-Agent", "portald/"+version)
	if s.gzip {
		s.header.Set("Content-Encoding", "gzip")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if s.tls != nil {
		transport.TLSClientConfig = s.tls
	}
	return &client{http.Client{Transport: transport, Timeout: s.timeout}, s}
}

// export sends a request until the collector takes it, refuses it, or ctx ends.
func (c *client) export(ctx context.Context, request *collector.ExportLogsServiceRequest) (refused string, err error) {
	body, err := proto.Marshal(request)
	if err != nil {
		return "", err
	}
	if c.settings.gzip {
		body = zip(body)
	}
	pause := backoff.Pause{First: firstPause, Last: lastPause}
	for {
		refused, err = c.send(ctx, body)
		var later retryable
		if !errors.As(err, &later) {
			return refused, err
		}
		p := pause.Next()
		if ended := backoff.Sleep(ctx, max(later.after, p+rand.N(p/2))); ended != nil {
			return "", fmt.Errorf("%w: %w", ended, err)
		}
	}
}

func zip(body []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(body) // a buffer takes everything
	_ = w.Close()
	return out.Bytes()
}

// retryable is why a request is to be sent again, and after which time at the earliest.
type retryable struct {
	error
	after time.Duration
}

// Unwrap returns the reason.
func (r retryable) Unwrap() error { return r.error }

// send sends a request once. It returns what the collector says about records of it that it has not taken.
func (c *client) send(ctx context.Context, body []byte) (refused string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.settings.url, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header = c.settings.header
	response, err := c.http.Do(request)
	var timed interface{ Temporary() bool }
	switch {
	case errors.As(err, &timed) && timed.Temporary():
		return "", retryable{err, 0}
	case err != nil:
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, responseSize))
	if err != nil {
		return "", err
	}
	if response.StatusCode/100 == 2 {
		return partlyRefused(response.Header, text)
	}
	shown := printable.Text(string(bytes.TrimSpace(text[:min(len(text), responseShown)])))
	err = fmt.Errorf("send to %s: %s: %s", c.settings.url, response.Status, shown)
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return "", retryable{err, retryAfter(response.Header, time.Now())}
	}
	return "", err
}

func partlyRefused(header http.Header, text []byte) (refused string, err error) {
	var response collector.ExportLogsServiceResponse
	if header.Get("Content-Type") != contentType {
		return "", nil
	}
	if err := proto.Unmarshal(text, &response); err != nil {
		return "", fmt.Errorf("read the collector's answer: %w", err)
	}
	part := response.GetPartialSuccess()
	if part.GetRejectedLogRecords() == 0 && part.GetErrorMessage() == "" {
		return "", nil
	}
	return fmt.Sprintf("%d records: %s", part.GetRejectedLogRecords(), printable.Text(part.GetErrorMessage())), nil
}

// retryAfter is the time that a collector asks for; 0: it does not.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
