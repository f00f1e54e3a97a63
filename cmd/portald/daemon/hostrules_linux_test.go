package daemon

import (
	"io"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/platform"
	"github.com/portald/portald/proxy/succession"
)

// With onExit: remove, the rules stay all the same if another daemon serves the node by the time this one has drained:
// there is no writer here that could remove them.
func TestRulesOfAnotherStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := platform.ListenPrivate(platform.PacketSocket, path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var settings atomic.Pointer[config.Settings]
	settings.Store(&config.Settings{})
	log := logrus.New()
	log.SetOutput(io.Discard)
	r := &hostRules{
		cfg: &config.Config{HandOverSocket: path}, settings: &settings, log: log, state: succession.NewState(path),
	}
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
}
