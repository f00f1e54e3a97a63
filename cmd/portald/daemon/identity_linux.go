package daemon

import (
	"crypto/rand"
	"fmt"
	"os"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/platform"
	"github.com/portald/portald/proxy/succession/handover"
)

// identity is who this daemon is, for those before and after it.
func identity(cfg *config.Config, version string) handover.Identity {
	return handover.Identity{
		Installation: installation(cfg), Version: version, PID: os.Getpid(), Instance: rand.Text(),
	}
}

// installation tells apart the portalds of a host: one takes over from another only where these are equal.
func installation(cfg *config.Config) string {
	from := "the API server"
	if len(cfg.Manifests) > 0 {
		from = "manifests"
	}
	return fmt.Sprintf("node %s in %s, Services of %s with the service proxy name %q",
		cfg.NodeName, platform.NetworkNamespace(), from, cfg.ServiceProxyName)
}
