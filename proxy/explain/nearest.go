package explain

import (
	"cmp"
	"slices"
	"strings"

	"github.com/portald/portald/portal/service"
)

// most is how many names are suggested.
const most = 5

// Nearest returns the names of Services and pods that are nearest to one that is not known: first the same name in
// another namespace, then names that take the fewest edits.
func Nearest(q Query, ports []*service.Port) []string {
	if q.Service.Name == "" {
		return nil
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
		limit := max(2, len(q.Service.Name)/3)
		if d := len(name.Name) - len(q.Service.Name); d > limit || -d > limit {
			return
		}
		far := distance(q.Service.Name, name.Name)
		if name.Namespace != q.Service.Namespace {
			far += min(2, distance(q.Service.Namespace, name.Namespace))
		}
		if far <= limit {
			all = append(all, candidate{text, far})
		}
	}
	for _, p := range ports {
		add(p.Name.Service(), p.Name.Service().String())
		for _, e := range p.Endpoints {
			if namespace, name, ok := strings.Cut(e.Pod, "/"); ok && namespace == q.Service.Namespace {
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

// distance is how many letters are inserted, deleted or replaced to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			next := min(row[j]+1, row[j+1]+1, diagonal+1)
			if a[i] == b[j] {
				next = diagonal
			}
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
