package httpserver

import (
	"io"
	"net/http"
)

// Text answers with plain text.
func Text(w http.ResponseWriter, code int, text string) {
	WriteHeader(w, "text/plain; charset=utf-8", code)
	_, _ = io.WriteString(w, text) // it cannot fail but for a client that left
}

// WriteHeader begins a response, whose body the caller writes.
func WriteHeader(w http.ResponseWriter, contentType string, code int) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
}
