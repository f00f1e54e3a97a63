package adminsocket

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/portald/portald/platform/printable"
)

// versioned names the version in each answer.
func versioned(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(HeaderVersion, Version)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// withErrors returns a handler. An error of serve is the response if nothing was written yet; else the connection is
// closed, so that the client does not take a part for the whole.
func withErrors(serve func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		out := &responseWriter{ResponseWriter: w}
		err := serve(out, r)
		switch {
		case err == nil:
		case out.started:
			panic(http.ErrAbortHandler)
		default:
			w.WriteHeader(statusOf(err))
			_ = writeJSON(w, Failure{err.Error()}) // it fails only for a client that left
		}
	})
}

// responseWriter knows whether anything was written.
type responseWriter struct {
	http.ResponseWriter
	started bool
}

func (a *responseWriter) Write(p []byte) (int, error) {
	a.started = true
	return a.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (a *responseWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// writeJSON answers with a value. Texts of others are in it, and it may be read without one of our commands.
func writeJSON(w io.Writer, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = w.Write(append(printable.JSON(text), '\n'))
	return err
}

// statusError is an error with the status to answer.
type statusError struct {
	error
	status int
}

func badRequest(format string, values ...any) error {
	return statusError{fmt.Errorf(format, values...), http.StatusBadRequest}
}

func notFound(format string, values ...any) error {
	return statusError{fmt.Errorf(format, values...), http.StatusNotFound}
}

func statusOf(err error) int {
	if status, ok := errors.AsType[statusError](err); ok {
		return status.status
	}
	return http.StatusInternalServerError
}
