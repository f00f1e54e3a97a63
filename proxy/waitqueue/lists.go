package waitqueue

// ofAll and ofOwn are the links of a place in the queue's list, and in its client's.
func ofAll(p *Place) *links { return &p.all }
func ofOwn(p *Place) *links { return &p.own }

// insert puts a place behind those that have waited for longer. Most come last; a predecessor's may not.
func insert(p *Place, first, last **Place, of func(*Place) *links) {
	l := of(p)
	for l.prev = *last; l.prev != nil && l.prev.Since > p.Since; {
		l.prev = of(l.prev).prev
	}
	if l.prev == nil {
		l.next, *first = *first, p
	} else {
		before := of(l.prev)
		l.next, before.next = before.next, p
	}
	if l.next == nil {
		*last = p
	} else {
		of(l.next).prev = p
	}
}

func remove(p *Place, first, last **Place, of func(*Place) *links) {
	l := of(p)
	if l.prev == nil {
		*first = l.next
	} else {
		of(l.prev).next = l.next
	}
	if l.next == nil {
		*last = l.prev
	} else {
		of(l.next).prev = l.prev
	}
	*l = links{}
}

// clients are those with places, a heap: first comes who has the most, and of those that have as many, who has waited
// the longest. So a place is found in a time that hardly depends on how many wait.
type clients []*Client

func (all clients) Len() int { return len(all) }

func (all clients) Less(i, k int) bool {
	a, b := all[i], all[k]
	return a.places > b.places || a.places == b.places && a.oldest.Since < b.oldest.Since
}

func (all clients) Swap(i, k int) {
	all[i], all[k] = all[k], all[i]
	all[i].index, all[k].index = i, k
}

// Push implements heap.Interface.
func (all *clients) Push(c any) {
	client := c.(*Client)
	client.index = len(*all)
	*all = append(*all, client)
}

// Pop implements heap.Interface.
func (all *clients) Pop() any {
	last := len(*all) - 1
	c := (*all)[last]
	(*all)[last] = nil
	if *all = (*all)[:last]; last == 0 {
		*all = nil // a slice does not shrink
	}
	return c
}
