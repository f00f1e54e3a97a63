package winservice

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
)

// hostLog is an event log that keeps what it gets, and may hang.
type hostLog struct {
	mu    sync.Mutex
	lines []string
	hang  chan struct{}
}

func (h *hostLog) Report(severity Severity, id uint32, text string) error {
	if h.hang != nil {
		<-h.hang
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, fmt.Sprintf("%s %d %s", severity, id, text))
	return nil
}

func (h *hostLog) got(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	if got := strings.Join(h.lines, "\n--\n"); got != strings.Join(want, "\n--\n") {
		t.Errorf("events\n%s\nwant\n%s", got, strings.Join(want, "\n--\n"))
	}
	h.lines = nil
}

func logging(l *EventLog) *logrus.Logger {
	log, _ := logtest.NewNullLogger()
	log.AddHook(l)
	return log
}

// Lines of the log are events by how they begin; others are if they are warnings or errors.
func TestEventsOfTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := &hostLog{}
		l := newEventLog(host)
		log := logging(l)
		log.Debug("Sync failed for a reason")
		log.Info("3 event loops")
		log.Info("Ready: all service ports are served")
		log.WithFields(logrus.Fields{"service": "shop/cart", "frontend": "10.96.0.7:80"}).WithError(errors.New("in use")).
			Error("Cannot serve a frontend: trying again; all others are served")
		log.Warn("Cannot serve a frontend") // another severity
		log.Error("something else")
		log.Warn("service shop/cart: spec: \"Sync failed\": must not")
		host.got(t, "Information 101 Ready: all service ports are served",
			"Error 130 Cannot serve a frontend: trying again; all others are served\nerror: in use\nfrontend: "+
				"10.96.0.7:80\nservice: shop/cart",
			"Warning 200 Cannot serve a frontend", "Error 300 something else",
			"Warning 200 service shop/cart: spec: \"Sync failed\": must not")
		l.Close()
	})
}

// A tenant that causes many events fills neither the event log nor memory, and does not hide events of other IDs.
func TestTooManyEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := &hostLog{}
		l := newEventLog(host)
		log := logging(l)
		since := time.Now().Format(time.DateTime)
		var want []string
		for i := range 10000 {
			log.Warnf("warning %d", i)
			if i < eventsEach {
				want = append(want, fmt.Sprintf("Warning 200 warning %d", i))
			}
			synctest.Wait()
		}
		log.Error("other")
		host.got(t, append(want, "Error 300 other")...)
		time.Sleep(eventsPeriod)
		log.Warn("again")
		host.got(t, "Warning 190 Events that are in the log of the daemon alone, since "+since+":\n9990 of ID 200",
			"Warning 200 again")
		l.Close()
		log.Warn("late")
		host.got(t)
	})
}

// An event log that hangs stops neither the daemon nor its end.
func TestEventLogHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := &hostLog{hang: make(chan struct{})}
		l := newEventLog(host)
		from := time.Now()
		for _, e := range Events() {
			for range eventsEach {
				l.write(e.ID, "text")
			}
		}
		l.Close()
		if took := time.Since(from); took != closeTimeout {
			t.Errorf("took %v", took)
		}
		close(host.hang)
		<-l.ended
		if n := len(host.lines); n < eventsQueue || n > eventsQueue+1 {
			t.Errorf("%d events were kept for the host", n)
		}
	})
}

func TestTidy(t *testing.T) {
	for text, want := range map[string]string{
		"plain\nlines": "plain\nlines", "a\tb\r\nc\x00": "a b \nc ", "fe80::1%4 100% %s": "fe80::1% 4 100% %s",
		"%%1 %%%%2": "% % 1 % % % % 2", "\xff": "\uFFFD",
		strings.Repeat("ä", eventBytes): strings.Repeat("ä", eventBytes/2-2) + "…",
	} {
		if got := tidy(text); got != want || len(got) > eventBytes {
			t.Errorf("%.40q: %.40q, want %.40q", text, got, want)
		}
	}
}
