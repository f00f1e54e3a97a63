package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is one of an archive.
type file struct {
	name string // in the archive
	from string
	mode os.FileMode
}

// files lists what the archive of a target has, in order.
func (p *packer) files(t target) ([]file, error) {
	source := func(name string) string { return filepath.Join(p.sources, name) }
	all := []file{
		{filepath.Base(p.program(t)), p.program(t), 0o755},
		{"LICENSE", source("LICENSE"), 0o644},
		{"NOTICE", source("NOTICE"), 0o644},
		{"CHANGELOG.md", source("CHANGELOG.md"), 0o644},
	}
	pages, err := os.ReadDir(filepath.Join(p.work, "man"))
	if err != nil {
		return nil, err
	}
	for _, e := range pages {
		all = append(all, file{"man/man8/" + e.Name(), filepath.Join(p.work, "man", e.Name()), 0o644})
	}
	completion := func(shell, name string) {
		all = append(all, file{"completion/" + name, filepath.Join(p.work, "completion-"+shell), 0o644})
	}
	if t.os == "windows" {
		completion("powershell", "portald.ps1")
		for _, name := range []string{"install.ps1", "uninstall.ps1", "capture.ps1"} {
			all = append(all, file{name, source("deploy/windows/" + name), 0o644})
		}
	} else {
		completion("bash", "portald.bash")
		completion("zsh", "_portald")
		completion("fish", "portald.fish")
		for _, name := range []string{"portald.service", "portald-keep.service"} {
			all = append(all, file{"systemd/" + name, source("deploy/" + name), 0o644})
		}
		all = append(all, file{"config.yaml", source("deploy/packages/config.yaml"), 0o644})
	}
	slices.SortFunc(all, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// archive writes the .tar.gz of a target, of Windows the .zip. All files have the time of the commit.
func (p *packer) archive(t target) error {
	files, err := p.files(t)
	if err != nil {
		return err
	}
	ending, write := ".tar.gz", writeTar
	if t.os == "windows" {
		ending, write = ".zip", writeZip
	}
	out, err := os.Create(filepath.Join(p.to, p.name(t)+ending))
	if err != nil {
		return err
	}
	err = write(out, p.name(t), files, p.time)
	return errors.Join(err, out.Close())
}

func writeTar(to io.Writer, folder string, files []file, at time.Time) error {
	z, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
	for _, f := range files {
		if err := addTo(f, func(size int64) (io.Writer, error) {
			return w, w.WriteHeader(&tar.Header{
				Typeflag: tar.TypeReg, Name: path.Join(folder, f.name), Size: size, Mode: int64(f.mode), ModTime: at,
				Format: tar.FormatUSTAR,
			})
		}); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), z.Close())
}

func writeZip(to io.Writer, folder string, files []file, at time.Time) error {
	w := zip.NewWriter(to)
	for _, f := range files {
		if err := addTo(f, func(int64) (io.Writer, error) {
			h := &zip.FileHeader{Name: path.Join(folder, f.name), Method: zip.Deflate, Modified: at}
			h.SetMode(f.mode)
			return w.CreateHeader(h)
		}); err != nil {
			return err
		}
	}
	return w.Close()
}

// addTo copies a file to where begin, which gets its size, says.
func addTo(f file, begin func(size int64) (io.Writer, error)) error {
	in, err := os.Open(f.from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	w, err := begin(info.Size())
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	_, err = io.Copy(w, in)
	return err
}
