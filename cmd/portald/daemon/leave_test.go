package daemon

import (
	"sync/atomic"
	"testing"
	"time"

	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/succession"
)

// A drain that waits for handshakes goes on until its time is over, but not once it is cut.
func TestDrainIsCut(t *testing.T) {
	log, _ := logtest.NewNullLogger()
	core, err := splice.New(splice.Options{}, openEngine(config.EngineGoroutine, nil, log))
	if err != nil {
		t.Fatal(err)
	}
	var settings atomic.Pointer[config.Settings]
	settings.Store(&config.Settings{Drain: time.Minute})
	cut := make(chan struct{})
	r := &reconciler{log: log, settings: &settings, path: &dataPath{core: core}, cut: cut, state: succession.NewState("")}
	from := time.Now()
	r.drain(1)
	if took := time.Since(from); took < succession.HandshakeTime {
		t.Errorf("the drain took %v, want %v", took, succession.HandshakeTime)
	}
	close(cut)
	from = time.Now()
	r.drain(1)
	if took := time.Since(from); took >= succession.HandshakeTime {
		t.Errorf("the cut drain took %v", took)
	}
}
