package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

const plugin = "./cmd/kubectl-portald"

// completePlugin is what kubectl runs to complete the arguments of a plugin: it finds it by its name.
const completePlugin = "#!/bin/sh\nexec kubectl-portald __complete \"$@\"\n"

func (p *packer) pluginProgram(t target) string {
	name := "kubectl-portald"
	if t.os == "windows" {
		name += ".exe"
	}
	return filepath.Join(p.work, t.os+"-"+t.arch, name)
}

func (p *packer) buildPlugin(ctx context.Context, t target) error {
	_, err := said(ctx, p.sources, t.environment(), "go", "build", "-trimpath", "-ldflags=-s -w", "-buildvcs=true",
		"-o", p.pluginProgram(t), plugin)
	return err
}

// packPlugin writes the archive of the plugin for a system. Its modules are all of the daemon's program too.
func (p *packer) packPlugin(t target) error {
	complete := filepath.Join(p.work, "kubectl_complete-portald")
	if err := os.WriteFile(complete, []byte(completePlugin), 0o600); err != nil {
		return err
	}
	files := []file{
		{"LICENSE", filepath.Join(p.sources, "LICENSE"), 0o644},
		{"NOTICE", filepath.Join(p.sources, "NOTICE"), 0o644},
		{filepath.Base(p.pluginProgram(t)), p.pluginProgram(t), 0o755},
	}
	ending, write := ".zip", writeZip
	if t.os != "windows" {
		ending, write = ".tar.gz", writeTar
		files = append(files, file{"kubectl_complete-portald", complete, 0o755})
	}
	name := "kubectl-" + p.name(t)
	out, err := os.Create(filepath.Join(p.to, name+ending))
	if err != nil {
		return err
	}
	err = write(out, name, files, p.time)
	return errors.Join(err, out.Close())
}
