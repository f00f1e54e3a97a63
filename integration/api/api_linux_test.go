package api

import (
	"testing"

	"github.com/portald/portald/integration/apibed"
)

// TestAPI runs all parts with one control plane, which takes seconds to start. portald serves nodes a and b throughout;
// the other nodes are for parts that run portald with other flags.
func TestAPI(t *testing.T) {
	b := apibed.New(t, 12, 3)
	b.ServeAll(b.Sites[:2], "--external-ip-cidrs=203.0.113.192/26")
	b.Part("by hand", byHand)
	b.Part("named ports", namedPorts)
	b.Part("both families", bothFamilies)
	b.Part("labels", labels)
	b.Part("api server", apiServer)
	b.Part("internal policy", internalPolicy)
	b.Part("external policy", externalPolicy)
	b.Part("health check port", healthCheckPort)
	b.Part("health check port taken", healthCheckPortTaken)
	b.Part("source ranges", sourceRanges)
	b.Part("hints", topologyHints)
	b.Part("terminating", terminating)
	b.Part("not ready", notReady)
	b.Part("affinity", affinityChanges)
	b.Part("node to be deleted", nodeToBeDeleted)
	b.Part("inside by node cidr", byNodeCIDR)
	b.Part("inside by interface", byInterface)
	b.Part("start settings", startSettings)
	b.Part("node events", nodeEvents)
	b.Part("service events", serviceEvents)
	b.Part("without effect", withoutEffect)
	b.Part("dials", dials)
	b.Part("idle timeouts", idleTimeouts)
	b.Part("connection limit", connectionLimit)
	b.Part("client seen", seesClient)
	b.Part("proxy header", proxyHeader)
	b.Part("config file", configFile)
	b.Part("from zero", fromZero)
	b.Part("debugged", debugged)
	b.Part("metrics", metrics)
	b.Part("pages", pages)
	b.Part("proxy name", proxyName)
	b.Part("kernel modes", kernelModes)
	b.Part("service cidrs", serviceCIDRs)
	b.Part("going back", goingBack)
}
