package translate

import (
	"iter"
	"maps"
	"slices"

	"github.com/portald/portald/portal/service"
)

// owners counts the Services that have something, by frontend. Almost all frontends have one; a port that is the target
// of all Services has them all, and a change of one costs the same.
type owners map[service.Frontend]ownersOfOne

// ownersOfOne are in a list as long as they are few: a map takes ten times the memory.
type ownersOfOne struct {
	few  []service.Name // each as often as it is counted
	many map[service.Name]int
}

// mostFew is where a map begins to cost less than to search the list.
const mostFew = 16

func (o owners) add(f service.Frontend, name service.Name) {
	one := o[f]
	switch {
	case one.many != nil:
		one.many[name]++
		return
	case len(one.few) < mostFew:
		one.few = append(one.few, name)
	default:
		one.many = map[service.Name]int{name: 1}
		for _, n := range one.few {
			one.many[n]++
		}
		one.few = nil
	}
	o[f] = one
}

func (o owners) remove(f service.Frontend, name service.Name) {
	one := o[f]
	if one.many != nil {
		if one.many[name]--; one.many[name] <= 0 {
			delete(one.many, name)
		}
	} else if i := slices.Index(one.few, name); i >= 0 {
		one.few = slices.Delete(one.few, i, i+1)
		o[f] = one
	}
	if len(one.few)+len(one.many) == 0 {
		delete(o, f)
	}
}

// of returns the owners, in no order, some perhaps more than once.
func (o owners) of(f service.Frontend) iter.Seq[service.Name] {
	if one := o[f]; one.many == nil {
		return slices.Values(one.few)
	}
	return maps.Keys(o[f].many)
}

// first returns the owner whose name comes first; false: there is none.
func (o owners) first(f service.Frontend) (name service.Name, found bool) {
	for n := range o.of(f) {
		if !found || compareNames(n, name) < 0 {
			name, found = n, true
		}
	}
	return name, found
}
