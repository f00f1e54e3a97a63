package integration

import "testing"

// TestAPI is one test with parts, for a control plane takes seconds to start. Nodes a and b are served throughout; the
// others are for parts that have portald run in ways of their own.
func TestAPI(t *testing.T) {
	b := newAPIBed(t, 10, 3)
	b.serveAll(b.sites[:2], "--external-ip-cidrs=203.0.113.192/26")
	b.run("by hand", byHand)
	b.run("named ports", namedPorts)
	b.run("both families", bothFamilies)
	b.run("labels", labels)
	b.run("api server", apiServer)
	b.run("internal policy", internalPolicy)
	b.run("external policy", externalPolicy)
	b.run("health check port", healthCheckPort)
	b.run("health check port taken", healthCheckPortTaken)
	b.run("source ranges", sourceRanges)
	b.run("hints", topologyHints)
	b.run("terminating", terminating)
	b.run("not ready", notReady)
	b.run("affinity", affinityChanges)
	b.run("node to be deleted", nodeToBeDeleted)
	b.run("inside by node cidr", byNodeCIDR)
	b.run("inside by interface", byInterface)
	b.run("start settings", startSettings)
	b.run("node events", nodeEvents)
	b.run("service events", serviceEvents)
	b.run("dials", dials)
	b.run("idle timeouts", idleTimeouts)
	b.run("connection limit", connectionLimit)
	b.run("client seen", seesClient)
	b.run("proxy header", proxyHeader)
	b.run("config file", configFile)
	b.run("metrics", metrics)
	b.run("pages", pages)
	b.run("proxy name", proxyName)
	b.run("kernel modes", kernelModes)
	b.run("going back", goingBack)
}
