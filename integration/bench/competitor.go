//go:build linux

package main

// Addresses and ports of the service, the pod's ports, and the listeners of proxies that the redirect rules point to.
const (
	vip         = "10.96.0.10"
	changingVIP = "10.96.0.20" // of the Service that changes
	echoPort    = 9000         // small exchanges, TCP and UDP
	bulkPort    = 9001         // a sink
	sourcePort  = 9002         // a source of bulk, which also takes it
	proxyEcho   = 15000
	proxyBulk   = 15001
	proxySource = 15002
	udpTimeout  = "1s" // nginx limits its UDP sessions only by descriptors, so idle ones must end soon
)

const userspace = "" // mode of a portald whose listeners forward all Services

// competitor is one way to forward the service's traffic.
type competitor struct {
	name, label string
	program     string // command it needs; none: the kernel alone
	mode        string // kernel mode of portald; none: userspace mode
	engine      string // engine of portald in userspace mode; none: automatic
	windows     bool   // portald.exe, under Wine
	path        string // path of another portald than the measured one
	services    int    // number of additional Services of portald
	unrecorded  bool   // portald writes no connection records
	kept        bool   // portald has a keeper
	retries     bool   // portald does for its connections all that a Service may ask for
	flowRecords string // which connections of the kernel get records: a setting of kernelRecords; none: left out
	from        string // package of program and file
	file        string // another required file
	udp         bool
	// start prepares the node and the files in the bed's directory, and returns the command line to run on the node;
	// none if there is nothing to run.
	start func(b *bed) ([]string, error)
}

func (c competitor) title() string { return c.name }

// other tells whether it is portald with another engine than Linux has by default.
func (c competitor) other() bool { return c.engine != "" || c.windows }

// records tells whether the competitor must write a record of each connection.
func (c competitor) records() bool {
	return c.program == "portald" && c.mode == userspace && !c.unrecorded
}

func everyone(c competitor) bool       { return withRetried(c) && !c.retries }
func withRetried(c competitor) bool    { return c.mode == userspace && !c.other() }
func withUDP(c competitor) bool        { return c.udp && everyone(c) }
func proxies(c competitor) bool        { return c.program != "" && everyone(c) }
func portaldAlone(c competitor) bool   { return c.records() && !c.kept && !c.retries && !c.other() }
func kernelModes(c competitor) bool    { return c.mode != userspace && c.flowRecords == "" }
func recordsOfFlows(c competitor) bool { return c.flowRecords != "" }
func engine(c competitor) bool         { return c.records() && !c.kept && !c.retries && c.path == "" }
