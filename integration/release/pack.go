package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// packer makes all files of a release of the commit that is checked out.
type packer struct {
	nfpm, cyclonedx string // programs
	to              string // the folder
	targets         []target
	plugins         []target // of the program for kubectl

	sources string // a clone of the commit and of nothing else
	work    string
	version string // v0.1.0, as the program has it
	time    time.Time
}

func (p *packer) run(ctx context.Context) (err error) {
	if p.nfpm == "" || p.cyclonedx == "" {
		return fmt.Errorf("programs are missing: %s", usage)
	}
	for _, path := range []*string{&p.nfpm, &p.cyclonedx, &p.to} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	if p.work, err = os.MkdirTemp("", "release"); err != nil {
		return err
	}
	defer os.RemoveAll(p.work)
	if err := p.clone(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(p.to); err != nil {
		return err
	}
	if err := os.MkdirAll(p.to, 0o755); err != nil {
		return err
	}
	for _, t := range p.targets {
		if err := p.build(ctx, t); err != nil {
			return err
		}
	}
	for _, t := range p.plugins {
		if err := p.buildPlugin(ctx, t); err != nil {
			return err
		}
	}
	if err := p.describe(ctx); err != nil {
		return err
	}
	for _, t := range p.targets {
		if err := p.pack(ctx, t); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	for _, t := range p.plugins {
		if err := p.packPlugin(t); err != nil {
			return fmt.Errorf("plugin for %s: %w", t, err)
		}
	}
	return p.sums()
}

// clone takes the commit that is checked out, with the tags that name it: what is changed and not committed is no part
// of a release, and in a second working tree of a repository the go command finds no revision.
func (p *packer) clone(ctx context.Context) error {
	// git reads no checkout that belongs to somebody else, unless it is told to.
	const told = "[include]\n\tpath = ~/.gitconfig\n[safe]\n\tdirectory = *\n"
	config := filepath.Join(p.work, "gitconfig")
	if err := os.WriteFile(config, []byte(told), 0o600); err != nil {
		return err
	}
	git := func(in string, args ...string) (string, error) {
		return said(ctx, in, append(os.Environ(), "GIT_CONFIG_GLOBAL="+config), "git", args...)
	}
	commit, err := git("", "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	if dirty, err := git("", "status", "--porcelain"); err != nil {
		return err
	} else if dirty != "" {
		fmt.Fprintf(os.Stderr, "release: what is not committed is left out:\n%s\n", dirty)
	}
	p.sources = filepath.Join(p.work, "sources")
	if _, err := git("", "clone", "--quiet", "--no-checkout", ".", p.sources); err != nil {
		return err
	}
	if _, err := git(p.sources, "checkout", "--quiet", "--detach", commit); err != nil {
		return err
	}
	at, err := git(p.sources, "show", "--no-patch", "--format=%ct", "HEAD")
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return fmt.Errorf("the time of commit %s: %w", commit, err)
	}
	p.time = time.Unix(seconds, 0).UTC()
	return nil
}

// mostSize bounds a program, in bytes: it has 33 MB, of which asking other nodes, the page and captures are 2. The
// usual cause of a larger one is one import: a package that reaches text/template, so that the linker keeps all
// exported methods, or one of client-go that reaches its Clientset.
const mostSize = 34_500_000

// build builds the program as "make build" does, but without symbols for debuggers. Panics have names even so.
func (p *packer) build(ctx context.Context, t target) error {
	_, err := said(ctx, p.sources, t.environment(), "go", "build", "-trimpath", "-ldflags=-s -w", "-buildvcs=true",
		"-o", p.program(t), product)
	if err != nil {
		return err
	}
	info, err := os.Stat(p.program(t))
	if err != nil {
		return err
	}
	if size := info.Size(); size > mostSize {
		return fmt.Errorf("portald for %s has %.1f MB, and may have %.1f: see what imports more (go list -deps %s), or "+
			"raise mostSize in integration/release/pack.go", t, float64(size)/1e6, mostSize/1e6, product)
	}
	return nil
}

func (p *packer) program(t target) string {
	name := "portald"
	if t.os == "windows" {
		name += ".exe"
	}
	return filepath.Join(p.work, t.os+"-"+t.arch, name)
}

// describe has the program of this system say its version, and write its man pages and completions.
func (p *packer) describe(ctx context.Context) error {
	program := p.program(target{runtime.GOOS, runtime.GOARCH})
	line, err := said(ctx, "", nil, program, "version")
	if err != nil {
		return fmt.Errorf("%w (a release is made on one of %v)", err, targets)
	}
	words := strings.Fields(line)
	if len(words) < 3 || !strings.HasPrefix(words[1], "v") {
		return fmt.Errorf("portald version says %q, in which there is no version", line)
	}
	p.version = words[1]
	if _, err := said(ctx, "", p.dated(), program, "man", "--dir", filepath.Join(p.work, "man")); err != nil {
		return err
	}
	for _, shell := range shells {
		script, err := said(ctx, "", nil, program, "completion", shell)
		if err != nil {
			return err
		}
		path := filepath.Join(p.work, "completion-"+shell)
		if err := os.WriteFile(path, []byte(script+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

var shells = []string{"bash", "zsh", "fish", "powershell"}

// dated is an environment in which tools take the time of the commit for now.
func (p *packer) dated() []string {
	return append(os.Environ(), fmt.Sprint("SOURCE_DATE_EPOCH=", p.time.Unix()))
}

// pack makes the files of one target.
func (p *packer) pack(ctx context.Context, t target) error {
	if err := p.bill(ctx, t); err != nil {
		return err
	}
	if t.os == "windows" {
		return p.archive(t)
	}
	for _, make := range []func() error{
		func() error { return p.archive(t) },
		func() error { return p.packages(ctx, t, "deb") },
		func() error { return p.packages(ctx, t, "rpm") },
	} {
		if err := make(); err != nil {
			return err
		}
	}
	return nil
}

// bill writes the bill of materials: the modules of the program, as it tells them.
func (p *packer) bill(ctx context.Context, t target) error {
	_, err := said(ctx, p.sources, t.environment(), p.cyclonedx, "bin", "-json", "-noserial", "-notimestamp",
		"-version="+p.version, "-output="+filepath.Join(p.to, p.name(t)+".cdx.json"), p.program(t))
	return err
}

// name is that of the files of a target, without an ending.
func (p *packer) name(t target) string {
	return fmt.Sprintf("portald_%s_%s_%s", strings.TrimPrefix(p.version, "v"), t.os, t.arch)
}

// sums writes SHA256SUMS, as sha256sum does.
func (p *packer) sums() error {
	entries, err := os.ReadDir(p.to)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for _, e := range entries {
		f, err := os.Open(filepath.Join(p.to, e.Name()))
		if err != nil {
			return err
		}
		sum := sha256.New()
		_, err = io.Copy(sum, f)
		_ = f.Close() // it was read
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%x  %s\n", sum.Sum(nil), e.Name())
	}
	_, _ = os.Stdout.Write(out.Bytes()) // for people who watch
	return os.WriteFile(filepath.Join(p.to, "SHA256SUMS"), out.Bytes(), 0o644)
}

// said runs a command in a folder and returns its output. Its error has what the command said. Nil: this environment.
func said(ctx context.Context, in string, environment []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = in, environment
	var bad bytes.Buffer
	cmd.Stderr = &bad
	out, err := cmd.Output()
	if err != nil {
		line := strings.Join(slices.Concat([]string{filepath.Base(name)}, args), " ")
		return "", fmt.Errorf("%s: %w: %s", line, err, strings.TrimSpace(bad.String()+string(out)))
	}
	return strings.TrimSpace(string(out)), nil
}
