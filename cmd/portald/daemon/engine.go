package daemon

import (
	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/succession"
)

// openEngine returns a function that opens the engine of that name. Unless k is nil, the epoll engine gives it its
// connections to keep.
func openEngine(name string, k *succession.Keeper, log logrus.FieldLogger) func(*splice.Core) (splice.Engine, error) {
	if isEpoll(name) {
		return openEpoll(k, log)
	}
	return openGoroutine()
}

func isEpoll(engine string) bool {
	return engine == config.EngineEpoll || engine == config.EngineAuto && hasEpoll
}

// tellsDrops tells whether an engine tells which datagrams found a receive buffer full.
func tellsDrops(engine string) bool { return isEpoll(engine) }
