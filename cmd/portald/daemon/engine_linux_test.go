package daemon

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/proxy/splice"
)

func TestEngineByName(t *testing.T) {
	threads := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(threads)
	log := logrus.New()
	log.SetOutput(t.Output())
	for name, want := range map[string]string{
		config.EngineAuto: "epoll.", config.EngineEpoll: "epoll.", config.EngineGoroutine: "goroutine.",
	} {
		runtime.GOMAXPROCS(1)
		_, err := splice.New(splice.Options{}, func(c *splice.Core) (splice.Engine, error) {
			e, err := openEngine(name, nil, log)(c)
			if got := fmt.Sprintf("%T", e); !strings.Contains(got, want) {
				t.Errorf("%s: %s, want one of package %s", name, got, want)
			}
			return e, err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
