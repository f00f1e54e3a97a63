package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	product = "./cmd/portald"
	own     = "github.com/portald/portald"
	// goItself is the name of the standard library in NOTICE. Its version is that of the Go that builds, and no module's.
	goItself = "The Go standard library"
)

// linked is a module that is built in, with its license files.
type linked struct {
	name, version string
	files         map[string][]byte // licences, by the path in the module
	notices       map[string][]byte
}

// linkedModules lists the modules that any target links, by name. A package may have other terms than its module: what
// counts is the nearest licence above it, and that of the module.
func linkedModules(ctx context.Context) ([]*linked, error) {
	modules := map[string]*linked{}
	for _, t := range targets {
		packages, err := linkedPackages(ctx, t)
		if err != nil {
			return nil, err
		}
		for _, p := range packages {
			if err := p.add(modules); err != nil {
				return nil, err
			}
		}
	}
	all := slices.Collect(maps.Values(modules))
	slices.SortFunc(all, func(a, b *linked) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// goPackage is a package as the go command lists it.
type goPackage struct {
	ImportPath, Dir string
	Standard        bool
	Module          *struct {
		Path, Version, Dir string
		Replace            *struct{ Path string }
	}
}

func linkedPackages(ctx context.Context, t target) ([]goPackage, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-json=ImportPath,Dir,Standard,Module", product)
	cmd.Env = t.environment()
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages for %s: %w: %s", t, err, said.String())
	}
	var all []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("list packages for %s: %w", t, err)
		}
		all = append(all, p)
	}
}

// add adds the licences of a package to those of its module.
func (p goPackage) add(modules map[string]*linked) error {
	name, version, top := goItself, "", ""
	switch {
	case p.Standard:
		if modules[name] != nil {
			return nil
		}
		out, err := exec.Command("go", "env", "GOROOT").Output()
		if err != nil {
			return fmt.Errorf("ask for GOROOT: %w", err)
		}
		top = strings.TrimSpace(string(out))
		p.Dir = top
	case p.Module == nil:
		return fmt.Errorf("package %s is of no module", p.ImportPath)
	case p.Module.Path == own:
		return nil
	case p.Module.Replace != nil:
		return fmt.Errorf("module %s is replaced by %s: whose terms count is not known", p.Module.Path, p.Module.Replace.Path)
	default:
		name, version, top = p.Module.Path, p.Module.Version, p.Module.Dir
	}
	m := modules[name]
	if m == nil {
		m = &linked{name: name, version: version, files: map[string][]byte{}, notices: map[string][]byte{}}
		modules[name] = m
	}
	for _, dir := range []string{p.Dir, top} {
		if err := m.nearest(dir, top); err != nil {
			return fmt.Errorf("package %s: %w", p.ImportPath, err)
		}
	}
	return nil
}

// nearest takes the files of the nearest folder, from dir up to the top of the module, that has a licence.
func (m *linked) nearest(dir, top string) error {
	for {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("look for a licence: %w", err)
		}
		found := false
		for _, e := range entries {
			isLicence, isNotice := isTerms(e.Name())
			if e.IsDir() || !isLicence && !isNotice {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				return fmt.Errorf("read a licence: %w", err)
			}
			path, err := filepath.Rel(top, filepath.Join(dir, e.Name()))
			if err != nil {
				return err
			}
			if path = filepath.ToSlash(path); isNotice {
				m.notices[path] = text
				continue
			}
			m.files[path] = text
			found = true
		}
		if found {
			return nil
		}
		if dir == top {
			return fmt.Errorf("module %s has no file of a licence, which nobody may then pass on", m.name)
		}
		dir = filepath.Dir(dir)
	}
}

// isTerms tells by the name of a file whether it is a licence, or a notice.
func isTerms(name string) (licence, notice bool) {
	base, ext, _ := strings.Cut(strings.ToLower(name), ".")
	if ext == "go" {
		return false, false
	}
	for _, prefix := range []string{"license", "licence", "copying", "unlicense"} {
		licence = licence || strings.HasPrefix(base, prefix)
	}
	return licence, strings.HasPrefix(base, "notice")
}
