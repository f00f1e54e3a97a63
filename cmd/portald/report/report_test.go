package report

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// reported runs portald report without a daemon.
func reported(t *testing.T, args ...string) (out, errOut string, err error) {
	t.Helper()
	var o, e bytes.Buffer
	cmd := Command("v1")
	cmd.SetArgs(append(args, "--socket", filepath.Join(t.TempDir(), "none.sock")))
	cmd.SetOut(&o)
	cmd.SetErr(&e)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(t.Context())
	return o.String(), e.String(), err
}

// unpacked are the files of an archive, without their folder.
func unpacked(t *testing.T, archive io.Reader) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		text, err2 := io.ReadAll(r)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(h.Name, "/")
		files[path.Clean(name)] = string(text)
	}
}

// Without a daemon a report has what the node itself tells, and says what it lacks.
func TestReportWithoutADaemon(t *testing.T) {
	out, said, err := reported(t, "-o", "-")
	if err != nil {
		t.Fatal(err)
	}
	files := unpacked(t, strings.NewReader(out))
	if !strings.Contains(files["versions.txt"], "portald            v1 ") || files["doctor.txt"] == "" {
		t.Errorf("files: %v", files)
	}
	index := files["README.txt"]
	for _, want := range []string{"services.txt", "configuration.json", "metrics.txt", "explain/"} {
		if !strings.Contains(said, want) || !strings.Contains(index, want) || !strings.Contains(index, "not reachable") {
			t.Errorf("%s is missing, and the report does not say so: %s\n%s", want, said, index)
		}
	}
}

// A report is its user's alone, and takes no file's place.
func TestReportOverwritesNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	if out, _, err := reported(t, "-o", "r.tar.gz"); err != nil || !strings.HasPrefix(out, "r.tar.gz: 3 files.\n") {
		t.Errorf("%v, %s", err, out)
	}
	before, err := os.ReadFile("r.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat("r.tar.gz"); err != nil || filepath.Separator == '/' && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	_, _, err = reported(t, "-o", "r.tar.gz")
	if after, _ := os.ReadFile("r.tar.gz"); err == nil || !strings.Contains(err.Error(), "not overwritten") ||
		!bytes.Equal(before, after) {
		t.Errorf("a second report: %v", err)
	}
	if _, _, err := reported(t, "-o", "none/r.tar.gz"); err == nil || !strings.Contains(err.Error(), "-o names another") {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// A part that hangs or fails, or has more than fits, is noted, and keeps no other from being there.
func TestPartsAreBounded(t *testing.T) {
	c := &collection{made: time.Now()}
	ctx, cancel := context.WithCancel(t.Context())
	c.add(ctx, "long.txt", "", func(_ context.Context, out io.Writer) error {
		_, err := out.Write(make([]byte, maxFile+7))
		return err
	})
	c.add(ctx, "half.txt", "", func(_ context.Context, out io.Writer) error {
		_, _ = io.WriteString(out, "half")
		return errors.New("gone")
	})
	c.add(ctx, "empty.txt", "", func(context.Context, io.Writer) error { return nil })
	cancel()
	c.add(ctx, "hangs.txt", "", func(ctx context.Context, _ io.Writer) error { <-ctx.Done(); return ctx.Err() })
	index := string(c.index())
	for _, want := range []string{"7 bytes at its end are left out", "ended with: gone", "hangs.txt"} {
		if !strings.Contains(index, want) {
			t.Errorf("the index lacks %q:\n%s", want, index)
		}
	}
	if len(c.files) != 3 || len(c.files[0].text) != maxFile || string(c.files[2].text) != "None.\n" {
		t.Errorf("files:\n%s", index)
	}
	c.size = maxAll
	c.add(t.Context(), "more.txt", "", func(_ context.Context, out io.Writer) error {
		_, err := io.WriteString(out, "x")
		return err
	})
	if c.size != maxAll || len(c.files) != 3 || !strings.Contains(string(c.index()), "more.txt") {
		t.Errorf("beyond the bound of all: %d bytes\n%s", c.size, c.index())
	}
}
