//go:build !linux

package daemon

import (
	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/proxy/succession/handover"
)

// identity tells nobody anything: no daemon takes over from another here.
func identity(*config.Config, string) handover.Identity { return handover.Identity{} }
