package explain

import (
	"cmp"
	"slices"
	"strings"

	"github.com/portald/portald/platform/spelling"
	"github.com/portald/portald/portal/service"
)

// most is how many names are suggested.
const most = 5

// mostNamed is how many are that have the name in some namespace.
const mostNamed = 20

// Nearest returns the names of Services and pods that are nearest to one that is not known: first the same name in
// another namespace, then names that take the fewest edits.
func Nearest(q Query, ports []*service.Port) []string {
	if q.Service.Name == "" {
		return nil
	}
	if len(q.Ambiguous) > 0 {
		return q.Ambiguous[:min(mostNamed, len(q.Ambiguous))]
	}
	type candidate struct {
		text string
		far  int
	}
	seen := map[string]bool{}
	var all []candidate
	add := func(name service.Name, text string) {
		if seen[text] {
			return
		}
		seen[text] = true
		limit := max(2, spelling.Limit(q.Service.Name))
		if d := len(name.Name) - len(q.Service.Name); d > limit || -d > limit {
			return
		}
		far := spelling.Distance(q.Service.Name, name.Name)
		if name.Namespace != q.Service.Namespace && q.Service.Namespace != "" {
			far += min(2, spelling.Distance(q.Service.Namespace, name.Namespace))
		}
		if far <= limit {
			all = append(all, candidate{text, far})
		}
	}
	for _, p := range ports {
		add(p.Name.Service(), p.Name.Service().String())
		for _, e := range p.Endpoints {
			namespace, name, ok := strings.Cut(e.Pod, "/")
			if ok && (namespace == q.Service.Namespace || q.Service.Namespace == "") {
				add(service.Name{Namespace: namespace, Name: name}, "pod/"+e.Pod)
			}
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.far, b.far), cmp.Compare(a.text, b.text))
	})
	var out []string
	for _, c := range all[:min(most, len(all))] {
		out = append(out, c.text)
	}
	return out
}
