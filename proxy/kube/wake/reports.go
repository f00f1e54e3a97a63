package wake

import (
	"time"

	"github.com/portald/portald/portal/service"
)

// reports has the last text reported of each Service, so that the same is not reported again and again.
type reports map[service.Name]report

type report struct {
	text string
	at   time.Time
}

// again is after how long the same is said once more.
const again = time.Hour

// mostReports bounds what is remembered; then all is forgotten.
const mostReports = 4096

func newReports() reports { return reports{} }

// isNew tells whether to report a text of a Service, and then remembers it.
func (r reports) isNew(svc service.Name, text string, now time.Time) bool {
	if old, said := r[svc]; said && old.text == text && now.Sub(old.at) < again {
		return false
	}
	if len(r) >= mostReports {
		clear(r)
	}
	r[svc] = report{text, now}
	return true
}
