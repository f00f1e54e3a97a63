package main

import (
	"strings"
	"testing"
)

// A licence that is not known, and one that is not allowed, are refused by module, file and name.
func TestPermitted(t *testing.T) {
	modules := []*linked{
		{name: "a.example/good", files: map[string][]byte{"LICENSE": []byte("mit")}},
		{name: "a.example/copyleft", files: map[string][]byte{"COPYING": []byte("gpl")}},
		{name: "a.example/unknown", files: map[string][]byte{"LICENSE": []byte("who knows")}},
	}
	terms := map[string][]string{"mit": {"MIT"}, "gpl": {"GPL-3.0"}}
	err := permitted(modules, terms)
	if err == nil {
		t.Fatal("all is allowed")
	}
	for _, want := range []string{"a.example/copyleft: COPYING is GPL-3.0", "a.example/unknown: LICENSE is no licence"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not contain %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "good") {
		t.Errorf("MIT is refused: %v", err)
	}
	if err := permitted(modules[:1], terms); err != nil {
		t.Error(err)
	}
}

// Texts are there once, with all whose they are; the Apache License is in LICENSE, unless its appendix names somebody.
func TestNotice(t *testing.T) {
	apache := "Apache License\n   APPENDIX: how to\n   Copyright [yyyy] [name of copyright owner]\n"
	named := "Apache License\n   APPENDIX: how to\n   Copyright 2013 Somebody\n"
	text := string(notice([]*linked{
		{name: "a.example/one", version: "v1.0.0", files: map[string][]byte{"LICENSE": []byte("mit")}},
		{name: "a.example/two", version: "v2.0.0", files: map[string][]byte{"LICENSE": []byte("mit")}},
		{name: "b.example/x", version: "v0.1.0", files: map[string][]byte{"LICENSE": []byte(apache)},
			notices: map[string][]byte{"NOTICE": []byte("of x")}},
		{name: "b.example/y", version: "v0.2.0", files: map[string][]byte{"sub/LICENSE": []byte(named)}},
	}, map[string][]string{"mit": {"MIT"}, apache: {"Apache-2.0"}, named: {"Apache-2.0"}}))
	for _, want := range []string{
		"Licence of a.example/one v1.0.0,\n  a.example/two v2.0.0:\n\nmit\n",
		"Notice of b.example/x v0.1.0:\n\nof x\n",
		"Licence of b.example/y v0.2.0, sub/LICENSE:\n",
		"a.example/one v1.0.0  MIT\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the notice has no %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "Licence of b.example/x") {
		t.Errorf("the Apache License is repeated:\n%s", text)
	}
}
