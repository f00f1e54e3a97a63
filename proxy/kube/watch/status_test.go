package watch

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/portald/portald/proxy/kube/translate"
)

// A server that was away for long, and refuses requests when it comes back until it knows the rights of accounts, is no
// error. One that goes on refusing them is.
func TestRefusalAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, hook := test.NewNullLogger()
		s := newStatus("https://api", log)
		s.complete()
		r := request{translate.KindService, verbWatch}
		forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "", errors.New("not yet"))
		failures := func() (n int) {
			for _, e := range hook.AllEntries() {
				if e.Level == logrus.ErrorLevel {
					n++
				}
			}
			return n
		}
		for range 2 {
			s.result(r, errors.New("connection refused"))
			time.Sleep(2 * refusalGrace)
			s.result(r, forbidden)
			time.Sleep(refusalGrace / 2)
			s.result(r, forbidden)
		}
		if n := failures(); n != 0 {
			t.Errorf("%d errors of a server that has just started", n)
		}
		time.Sleep(refusalGrace)
		s.result(r, forbidden)
		if n := failures(); n != 1 {
			t.Errorf("%d errors of a server that refuses for good", n)
		}
	})
}
