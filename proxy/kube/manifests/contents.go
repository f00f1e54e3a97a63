package manifests

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/portald/portald/proxy/kube/translate"
)

// contents are the objects and problems of a reading.
type contents struct {
	objects  map[translate.Key]translate.Object
	others   map[string]int // number of objects by kind that is not read
	problems []problem
	refused  map[translate.Key]struct{} // keep their last valid state
	unnamed  bool                       // something refused has no known name: keep all missing objects
}

// problem is an error or a warning about a part of a file.
type problem struct {
	text    string
	refused bool // something cannot be read; else what was read is served
}

// contents collects the decoded fragments in order. Of an object that is there twice the first is served.
func (r *reading) contents() contents {
	c := contents{
		objects: map[translate.Key]translate.Object{}, others: map[string]int{}, refused: map[translate.Key]struct{}{},
	}
	sliced := map[translate.Key]bool{}
	r.each(func(d decoded, _ string) { sliced[d.owner] = sliced[d.owner] || d.other == "" })
	r.each(func(d decoded, place string) {
		c.add(d, place)
		if d.other == kindEndpoints && !sliced[d.owner] {
			c.warn(place, fmt.Sprintf("endpoints %s/%s: kind Endpoints is not read, and there is no EndpointSlice of the "+
				"Service: write one", d.owner.Namespace, d.owner.Name))
		}
	})
	return c
}

// each calls f with what was decoded, and where it is.
func (r *reading) each(f func(d decoded, place string)) {
	for i, fragment := range r.fragments {
		for _, d := range r.results[i] {
			fragment.item = cmp.Or(r.fragments[i].item, d.item)
			f(d, fmt.Sprintf("%s: %s", r.path, fragment.place()))
		}
	}
}

func (c *contents) add(d decoded, place string) {
	for _, w := range d.warnings {
		c.warn(place, w)
	}
	switch _, twice := c.objects[d.key]; {
	case d.err != nil:
		c.problems = append(c.problems, problem{place + ": " + d.err.Error(), true})
		c.refused[d.key] = struct{}{}
		c.unnamed = c.unnamed || d.key == translate.Key{}
	case d.other != "":
		c.others[d.other]++
	case d.kept == nil: // an empty list
	case twice:
		c.warn(place, fmt.Sprintf("%s is in this file twice; the first is served", d.key))
	default:
		c.objects[d.key] = d.kept
	}
}

func (c *contents) warn(place, text string) {
	c.problems = append(c.problems, problem{place + ": " + text, false})
}

// refuses tells whether an object was, or may have been, in what could not be read: a fragment of unknown kind may have
// been any.
func (c contents) refuses(key translate.Key) bool {
	_, refused := c.refused[key]
	_, anyKind := c.refused[anyKindKey(key.Namespace, key.Name)]
	return refused || anyKind || c.unnamed
}

// place is where in a file a fragment is.
func (f fragment) place() string {
	if f.item > 0 {
		return fmt.Sprintf("document %d, item %d (line %d)", f.Number, f.item, f.Line)
	}
	return f.Place()
}

// note is a line about objects that are not read, empty if there are none.
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
