package translate

import (
	"fmt"
	"strings"
)

// form checks a text of an object that is kept, sent to a successor or written to records. The API server checks only
// some of these, of an endpoint neither target nor zone, and nobody else checks a file.
type form struct {
	what   string
	most   int    // bytes
	beside string // what there may be beside letters and digits
}

// The forms, with the lengths that Kubernetes allows for names of Pods and Nodes, for values of labels such as zones,
// and for names of ports.
var (
	objectName = form{"a name of an object", 253, "-._"}
	zoneName   = form{"a zone", 63, "-._"}
	portName   = form{"a name of a port", 63, "-"}
)

// fits tells whether a text has the form. An empty one has.
func (f *form) fits(text string) bool {
	if len(text) > f.most {
		return false
	}
	for i := range len(text) {
		c := text[i]
		alnum := c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z'
		if !alnum && strings.IndexByte(f.beside, c) < 0 {
			return false
		}
	}
	return true
}

// refuse says why a text that does not fit is not taken, and what happens in its place.
func (f *form) refuse(then string) (advice string) {
	return fmt.Sprintf("is not %s, %s; write at most %d letters, digits and %s", f.what, then, f.most, f.beside)
}
