package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// where the units expect the program, and where packages put it.
const (
	localProgram   = "/usr/local/bin/portald"
	packageProgram = "/usr/bin/portald"
)

// packages makes the package of a kind, deb or rpm: deploy/packages/nfpm.yaml tells what is in it.
func (p *packer) packages(ctx context.Context, t target, kind string) error {
	stage := filepath.Join(p.work, kind+"-"+t.arch)
	if err := p.stage(t, stage); err != nil {
		return err
	}
	environment := append(p.dated(), "VERSION="+p.version, "ARCH="+t.arch)
	_, err := said(ctx, stage, environment, p.nfpm, "package", "--config=nfpm.yaml", "--packager="+kind, "--target="+p.to)
	return err
}

// stage lays out what nfpm.yaml names, in a folder.
func (p *packer) stage(t target, in string) error {
	files, err := p.files(t)
	if err != nil {
		return err
	}
	for _, f := range files {
		content, err := os.ReadFile(f.from)
		if err != nil {
			return err
		}
		name := f.name
		switch filepath.Dir(f.name) {
		case "systemd":
			if !bytes.Contains(content, []byte(localProgram)) {
				return fmt.Errorf("%s does not name %s", f.name, localProgram)
			}
			content = bytes.ReplaceAll(content, []byte(localProgram), []byte(packageProgram))
		case "man/man8":
			name += ".gz"
			if content, err = zipped(content); err != nil {
				return err
			}
		}
		if err := p.put(in, name, content, f.mode); err != nil {
			return err
		}
	}
	for _, name := range []string{"nfpm.yaml", "postinst", "prerm", "postrm"} {
		content, err := os.ReadFile(filepath.Join(p.sources, "deploy/packages", name))
		if err != nil {
			return err
		}
		if err := p.put(in, name, content, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// put writes a file with the time of the commit.
func (p *packer) put(in, name string, content []byte, mode os.FileMode) error {
	path := filepath.Join(in, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, content, mode); err != nil {
		return err
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask
		return err
	}
	return os.Chtimes(path, p.time, p.time)
}

func zipped(content []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(content); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
