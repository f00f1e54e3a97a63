package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// allowed are the licenses under which a module may be built in: they ask for their text and nothing else of whoever
// passes the program on under the Apache License 2.0.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}

const noticeFile = "NOTICE"

// writeNotice writes NOTICE, or with check says whether it is as it would be written.
func writeNotice(ctx context.Context, classifier string, check bool) error {
	modules, err := linkedModules(ctx)
	if err != nil {
		return err
	}
	terms, err := classify(ctx, classifier, modules)
	if err != nil {
		return err
	}
	text := notice(modules, terms)
	if !check {
		return os.WriteFile(noticeFile, text, 0o644)
	}
	is, err := os.ReadFile(noticeFile)
	if err != nil {
		return err
	}
	if !bytes.Equal(is, text) {
		return errors.New("NOTICE is not of the modules that are built in now: make notice")
	}
	return nil
}

// classify asks for the names of all licences, by their text. One that is not known, or not allowed, is an error.
func classify(ctx context.Context, classifier string, modules []*linked) (map[string][]string, error) {
	folder, err := os.MkdirTemp("", "licences")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	paths, texts := []string{}, map[string]string{} // by path
	for _, m := range modules {
		for _, text := range m.files {
			path := filepath.Join(folder, fmt.Sprint(len(paths)))
			if err := os.WriteFile(path, text, 0o600); err != nil {
				return nil, err
			}
			paths, texts[path] = append(paths, path), string(text)
		}
	}
	answer := filepath.Join(folder, "answer")
	cmd := exec.CommandContext(ctx, classifier, append([]string{"-json=" + answer}, paths...)...)
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("classify licences: %w: %s", err, said)
	}
	found, err := os.ReadFile(answer)
	if err != nil {
		return nil, err
	}
	terms, err := named(found, texts)
	if err != nil {
		return nil, err
	}
	return terms, permitted(modules, terms)
}

// named reads the answer of the classifier: the names of licences by their text.
func named(answer []byte, texts map[string]string) (map[string][]string, error) {
	var all []struct {
		Filepath        string
		Classifications []struct{ Name string }
	}
	if err := json.Unmarshal(answer, &all); err != nil {
		return nil, fmt.Errorf("read what the classifier says: %w", err)
	}
	terms := map[string][]string{}
	for _, f := range all {
		text, known := texts[f.Filepath]
		if !known {
			return nil, fmt.Errorf("the classifier tells of %s, which it was not asked for", f.Filepath)
		}
		for _, c := range f.Classifications {
			if c.Name != "Copyright" && !slices.Contains(terms[text], c.Name) {
				terms[text] = append(terms[text], c.Name)
			}
		}
		slices.Sort(terms[text])
	}
	return terms, nil
}

// permitted returns an error unless all licences are known and allowed.
func permitted(modules []*linked, terms map[string][]string) error {
	var bad []error
	for _, m := range modules {
		for path, text := range m.files {
			names := terms[string(text)]
			if len(names) == 0 {
				bad = append(bad, fmt.Errorf("%s: %s is no licence that is known: read it, and do without the module, or "+
					"have the classifier know it", m.name, path))
			}
			for _, name := range names {
				if !slices.Contains(allowed, name) {
					bad = append(bad, fmt.Errorf("%s: %s is %s; allowed are %s", m.name, path, name, strings.Join(allowed, ", ")))
				}
			}
		}
	}
	return errors.Join(bad...)
}
