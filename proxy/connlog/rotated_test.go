package connlog

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// rotatedIn opens a file that is rotated in a folder of its own.
func rotatedIn(t *testing.T, r Rotation) (o *output, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "records.json")
	o, err := openOutput(path, r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.close() })
	return o, path
}

// put writes text in steps of at most 64 KiB.
func put(t *testing.T, o *output, lines int, line string) {
	t.Helper()
	for range lines {
		if o.buf = append(o.buf, line...); o.waiting() >= flushBytes {
			if err := o.flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := o.flush(); err != nil {
		t.Fatal(err)
	}
}

// contents are the texts of all files of a folder, the newest last, which is the one that is written to.
func contents(t *testing.T, path string) (texts []string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(names, func(a, b string) int { // "records.json" is after "records-TIME.json"
		return strings.Compare(strings.Replace(a, "records.json", "z", 1), strings.Replace(b, "records.json", "z", 1))
	})
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".gz") {
			unzip, err := gzip.NewReader(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if text, err = io.ReadAll(unzip); err != nil {
				t.Fatal(err)
			}
		}
		texts = append(texts, string(text))
	}
	return texts
}

func TestRotationBySize(t *testing.T) {
	o, path := rotatedIn(t, Rotation{Size: 2 * mebibyte})
	line := strings.Repeat("x", 1023) + "\n"
	put(t, o, 5000, line)
	got := contents(t, path)
	if len(got) != 3 || strings.Join(got, "") != strings.Repeat(line, 5000) {
		t.Fatalf("%d files", len(got))
	}
	for i, text := range got {
		if i < len(got)-1 && len(text) < mebibyte || len(text) > 2*mebibyte || len(text)%len(line) != 0 {
			t.Errorf("file %d has %d bytes", i, len(text))
		}
	}
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 {
		t.Error(info.Mode(), err)
	}
}

func TestRotationKeepsANumberOfFiles(t *testing.T) {
	o, path := rotatedIn(t, Rotation{Size: mebibyte, Files: 2, Compress: true})
	line := strings.Repeat("y", 1023) + "\n"
	for range 5 {
		put(t, o, 900, line)
		time.Sleep(2 * time.Millisecond) // renamed files have milliseconds in their names
	}
	deadline := time.Now().Add(20 * time.Second)
	for { // compressed and removed in the background
		all, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
		packed := 0 // of one listing: of two, the first may have what is gone in the second
		for _, name := range all {
			if filepath.Ext(name) == ".gz" {
				packed++
			}
		}
		if packed == 2 && len(all) == 3 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("files %v", all)
		}
		time.Sleep(10 * time.Millisecond)
	}
	kept := strings.Join(contents(t, path), "")
	if n := len(kept) / len(line); n < 1800 || n > 3000 || kept != strings.Repeat(line, n) {
		t.Errorf("%d lines", n)
	}
}

func TestRotationByAge(t *testing.T) {
	const age = 200 * time.Millisecond
	o, path := rotatedIn(t, Rotation{Age: age})
	follow := func() {
		t.Helper()
		if err := o.follow(); err != nil {
			t.Fatal(err)
		}
	}
	put(t, o, 1, "1\n")
	time.Sleep(age)
	follow()
	put(t, o, 1, "2\n")
	for range 3 { // no empty files
		time.Sleep(age)
		follow()
	}
	if got := contents(t, path); !slices.Equal(got, []string{"1\n", "2\n", ""}) {
		t.Errorf("%q", got)
	}
}

// A file that others rename is followed also where this process rotates.
func TestRotatedFilesAreFollowed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("others cannot rename it there")
	}
	o, path := rotatedIn(t, Rotation{Size: mebibyte})
	put(t, o, 1, "1\n")
	if err := o.follow(); err != nil {
		t.Fatal(err)
	}
	put(t, o, 1, "2\n")
	rename(t, path, path+".old")
	o.torn = 1 // of a line that the renamed file has a part of
	if err := o.follow(); err != nil || o.torn != 0 {
		t.Fatal(err, o.torn)
	}
	put(t, o, 1, "3\n")
	got := contents(t, path)
	slices.Sort(got)
	if !slices.Equal(got, []string{"1\n2\n", "3\n"}) {
		t.Errorf("%q", got)
	}
	o.torn = 1
	if err := o.follow(); err != nil || o.torn != 1 {
		t.Errorf("%v: a torn line of the same file is %d bytes", err, o.torn)
	}
}

// A file that cannot be renamed, here for the length of its name, goes on, and the error is told.
func TestRotationThatFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("n", 240))
	o, err := openOutput(path, Rotation{Size: mebibyte})
	if err != nil {
		t.Fatal(err)
	}
	defer o.close()
	line := strings.Repeat("z", 1023) + "\n"
	put(t, o, 1000, line)
	if err := o.follow(); err != nil {
		t.Error(err)
	}
	for range 3 {
		put(t, o, 1000, line)
		if err := o.follow(); err == nil || !strings.Contains(err.Error(), "rotate the file") {
			t.Errorf("told %v", err)
		}
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != strings.Repeat(line, 4000) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

// A link, to a device or to a file elsewhere, is written through, and not renamed.
func TestLinkIsNotRotated(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("makes links")
	}
	for _, target := range []string{os.DevNull, filepath.Join(t.TempDir(), "target")} {
		path := filepath.Join(t.TempDir(), "records.json")
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		o, err := openOutput(path, Rotation{Size: mebibyte, Files: 1})
		if err != nil {
			t.Fatal(err)
		}
		put(t, o, 40_000, strings.Repeat("x", 99)+"\n")
		if err := o.close(); err != nil {
			t.Error(err)
		}
		names, err := os.ReadDir(filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		if to, err := os.Readlink(path); err != nil || to != target || len(names) != 1 {
			t.Errorf("%v, %v, %v", names, to, err)
		}
	}
}
