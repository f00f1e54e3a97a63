package goroutine_test

import (
	"testing"

	"github.com/portald/portald/proxy/splicetest"
)

func TestMain(m *testing.M) { splicetest.Main(m) }
