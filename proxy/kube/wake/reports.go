package wake

import (
	"time"

	"github.com/portald/portald/portal/service"
)

// reports are what was said of Services last, so that the same is not said again and again.
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

// isNews tells whether to say something of a Service, and remembers it then.
func (r reports) isNews(svc service.Name, text string, now time.Time) bool {
	if old, said := r[svc]; said && old.text == text && now.Sub(old.at) < again {
		return false
	}
	if len(r) >= mostReports {
		clear(r)
	}
	r[svc] = report{text, now}
	return true
}
