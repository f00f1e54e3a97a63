//go:build !windows

package goroutine_test

import (
	"testing"

	"github.com/portald/portald/proxy/splice/goroutine"
	"github.com/portald/portald/proxy/splicetest"
)

// The engine with the calls that every system has.
func TestSuite(t *testing.T) {
	splicetest.Run(t, splicetest.Engine{Open: goroutine.Open(goroutine.Host{})})
}
