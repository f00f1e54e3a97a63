package adminsocket

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// maxBody bounds what a request may bring. The server bounds how long it may take to bring it.
const maxBody = 1 << 20

// read reads the JSON of a request.
func read(r *http.Request, into any) error {
	if err := noQuery(r); err != nil {
		return err
	}
	body := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxBody))
	body.DisallowUnknownFields()
	if err := body.Decode(into); err != nil {
		return badRequest("read the request: %w", err)
	}
	if _, err := body.Token(); !errors.Is(err, io.EOF) {
		return badRequest("read the request: there is more than one JSON value")
	}
	return nil
}

// noQuery refuses a query where there is none: it would be ignored.
func noQuery(r *http.Request) error { return onlyKeys(r.URL.Query()) }

// onlyKeys refuses keys of a query that are not known.
func onlyKeys(query url.Values, known ...string) error {
	for key := range query {
		if !slices.Contains(known, key) {
			return badRequest("query: there is no key %q; known are %s", key, strings.Join(known, ", "))
		}
	}
	return nil
}
