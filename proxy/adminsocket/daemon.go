package adminsocket

import (
	"context"
	"iter"
	"net/http"

	"github.com/portald/portald/proxy/capture"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/connlog/logfiles"
	"github.com/portald/portald/proxy/explain"
	"github.com/portald/portald/proxy/payload"
)

// Daemon has the functions by which the handler reads and changes the daemon. They are safe for concurrent use.
type Daemon struct {
	Info func() Info
	// Connections lists what is open in userspace mode. The next one overwrites what was yielded.
	Connections func(ctx context.Context) iter.Seq[*Connection]
	// Kernel lists what the kernel carries, in the same way; nil: nothing.
	Kernel func(ctx context.Context) iter.Seq[*Connection]
	// AddTCP sets what the kernel knows of the sockets of connections of userspace mode, where they are still open.
	AddTCP func(ctx context.Context, to []Connection)
	// Records are the last records, and those to come.
	Records *connlog.Stream
	// Files are those of the connection log.
	Files logfiles.Log
	// Changes are the last changes, and those to come.
	Changes *changes.Log
	// Services lists the service ports whose names are wanted, in the order of names.
	Services func(ctx context.Context, wanted func(name string) bool) iter.Seq[*Service]
	// Endpoints lists the endpoints of these.
	Endpoints func(ctx context.Context, wanted func(service string) bool) iter.Seq[*Endpoint]
	// Drain keeps new connections away from an endpoint, Undrain ends that. An error says why not, and what to do.
	Drain   func(e *Endpoint, force bool) error
	Undrain func(e *Endpoint) error
	// Cut ends a connection or session of userspace mode by force, soon. False: none is open by that id.
	Cut func(id uint64) bool
	// SetLogLevel sets the level of the daemon's own log. An error says which there are.
	SetLogLevel func(level string) error
	// Explain says what this node does for a Service, an address, a pod or a connection, for a client or for all. An error
	// says what may be asked. Probe: it sends to the endpoints, once, and waits for what comes back.
	Explain func(ctx context.Context, what, from string, probe bool) (*explain.Report, error)
	// Flip says what would change if a Service had another mode, userspace or kernel. An error says what may be asked.
	Flip func(ctx context.Context, what, to string) (*explain.Report, error)
	// Capture captures packets until a limit of the request is reached or ctx ends; begin is called before the first.
	Capture func(ctx context.Context, r *capture.Request, begin func() (*capture.Writer, error)) error
	// Payload is what is kept of connections that ended badly.
	Payload func() payload.Content
	// Configuration is the one in force, to be encoded as JSON, without secrets.
	Configuration func() any
	// Metrics serves the metrics of the daemon, as Prometheus asks for them.
	Metrics http.Handler
}
