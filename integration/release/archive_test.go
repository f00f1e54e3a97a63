package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The same files give the same archive, whenever they were written.
func TestArchivesAreReproducible(t *testing.T) {
	at := time.Unix(1764000000, 0).UTC()
	for name, write := range map[string]func(*bytes.Buffer, []file) error{
		"tar": func(b *bytes.Buffer, f []file) error { return writeTar(b, "portald", f, at) },
		"zip": func(b *bytes.Buffer, f []file) error { return writeZip(b, "portald", f, at) },
	} {
		var made [2]bytes.Buffer
		for i := range made {
			path := filepath.Join(t.TempDir(), "portald")
			if err := os.WriteFile(path, bytes.Repeat([]byte("program "), 1000), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, at, at.Add(time.Duration(i)*time.Hour)); err != nil {
				t.Fatal(err)
			}
			if err := write(&made[i], []file{{"portald", path, 0o755}}); err != nil {
				t.Fatal(err)
			}
		}
		if made[0].Len() == 0 || !bytes.Equal(made[0].Bytes(), made[1].Bytes()) {
			t.Errorf("%s: %d bytes and %d others", name, made[0].Len(), made[1].Len())
		}
	}
}
