package ui

import (
	"testing"

	"github.com/portald/portald/integration/bed"
)

func TestMain(m *testing.M) { bed.Main(m) }
