package manifests

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/portald/portald/proxy/kube/translate"
)

// contents is what a reading found.
type contents struct {
	objects  map[translate.Key]translate.Object
	others   map[string]int // objects of kinds that are not read
	problems []string
	refused  map[translate.Key]struct{} // their last good state stays
	torn     bool                       // something could not even be named: all that is missing now stays
}

// contents goes through the decoded fragments in order. Of an object that is there twice the first is taken.
func (r *reading) contents() contents {
	c := contents{objects: map[translate.Key]translate.Object{}, others: map[string]int{}, refused: map[translate.Key]struct{}{}}
	for i, f := range r.fragments {
		for _, d := range r.results[i] {
			f.item = max(f.item, d.item)
			c.take(d, fmt.Sprintf("%s: %s", r.path, f.place()))
		}
	}
	return c
}

func (c *contents) take(d decoded, place string) {
	for _, w := range d.warnings {
		c.say(place, w)
	}
	switch _, twice := c.objects[d.key]; {
	case d.err != nil:
		c.say(place, d.err.Error())
		c.refused[d.key] = struct{}{}
		c.torn = c.torn || d.key == translate.Key{}
	case d.other != "":
		c.others[d.other]++
	case d.kept == nil: // an empty list
	case twice:
		c.say(place, fmt.Sprintf("%s is in this file twice; the first is served", d.key))
	default:
		c.objects[d.key] = d.kept
	}
}

// refuses tells whether an object was, or may have been, among what could not be read: one whose kind is not clear may
// have been of any.
func (c contents) refuses(key translate.Key) bool {
	_, refused := c.refused[key]
	_, unclear := c.refused[unclearKey(key.Namespace, key.Name)]
	return refused || unclear || c.torn
}

func (c *contents) say(place, text string) { c.problems = append(c.problems, place+": "+text) }

// place says where in a file a fragment is.
func (f fragment) place() string {
	if f.item > 0 {
		return fmt.Sprintf("document %d, item %d (line %d)", f.doc, f.item, f.line)
	}
	return fmt.Sprintf("document %d (line %d)", f.doc, f.line)
}

// note is one line about what is not read, empty when there is none.
func (c contents) note(path string) string {
	if len(c.others) == 0 {
		return ""
	}
	kinds := slices.Sorted(maps.Keys(c.others))
	for i, k := range kinds {
		kinds[i] = fmt.Sprintf("%s (%d)", k, c.others[k])
	}
	return fmt.Sprintf("%s: kinds that are not read: %s", path, strings.Join(kinds, ", "))
}
