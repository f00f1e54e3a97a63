package adminsocket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/portald/portald/proxy/capture"
)

// maxCaptures bounds how many clients capture packets at a time: each takes some 40 MB.
const maxCaptures = 2

// captures is how many clients capture.
type captures struct{ places chan struct{} }

func newCaptures() captures { return captures{make(chan struct{}, maxCaptures)} }

// capture streams packets until a limit of the request is reached, or the client leaves.
func (h *Handler) capture(w http.ResponseWriter, r *http.Request) error {
	var request capture.Request
	if err := read(r, &request); err != nil {
		return err
	}
	if err := request.Check(); err != nil {
		return badRequest("capture: %w", err)
	}
	select {
	case h.captures.places <- struct{}{}:
		defer func() { <-h.captures.places }()
	default:
		return statusError{fmt.Errorf("capture: %d clients capture packets already: end one of them", maxCaptures),
			http.StatusServiceUnavailable}
	}
	to := newStream(w, r)
	err := h.daemon.Capture(r.Context(), &request, func() (*capture.Writer, error) {
		if err := to.connection.SetReadDeadline(time.Time{}); err != nil { // it would end the stream
			return nil, err
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		return capture.NewWriter(flushed{to})
	})
	if errors.Is(err, capture.ErrNothing) {
		return notFound("capture: %w", err)
	}
	if err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	return nil
}

// flushed sends at once what is written.
type flushed struct{ *stream }

// Write implements io.Writer.
func (f flushed) Write(b []byte) (int, error) {
	n, err := f.stream.Write(b)
	if err == nil {
		err = f.stream.flush()
	}
	return n, err
}

// Capture gives a receiver what a capture has, until it ends. It holds data of clients.
func (c *Client) Capture(ctx context.Context, r capture.Request, to capture.Receiver) error {
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write the request: %w", err)
	}
	response, err := c.open(ctx, http.MethodPost, "/v1/capture", body)
	if err != nil {
		return err
	}
	defer response.Close()
	err = capture.Read(response, to)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
