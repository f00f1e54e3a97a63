package epoll

// worthSplicing is from how many bytes on splice(2) through a pipe is cheaper than a copy.
const worthSplicing = 16 << 10

// bulkAfter is how many large loads in a row make a flow bulk.
const bulkAfter = 2

// bulkEnds is how many small splices in a row end that: among many streams each has a little now and then.
const bulkEnds = 8

// loads tells by the sizes of a flow's loads whether it is bulk, which goes through pipes.
type loads struct {
	large uint8 // in a row that are worth a splice; from bulkAfter on the flow is bulk
	small uint8 // splices in a row that were not worth it
}

func (l *loads) bulk() bool { return l.large >= bulkAfter }

// read notes the size of one that was copied.
func (l *loads) read(n int) {
	if n >= worthSplicing {
		l.large = min(l.large+1, bulkAfter)
	} else {
		l.large = 0
	}
}

// spliced notes the size of one that went through a pipe.
func (l *loads) spliced(n int) {
	if n >= worthSplicing {
		l.small = 0
	} else if l.small++; l.small == bulkEnds {
		l.large, l.small = 0, 0
	}
}
