package connlog

import (
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// Line is a record as JSON: what the connection log and the admin API write, one object a line, and what clients read.
// docs/record.schema.json describes it. A time that never came is null, a missing address or word is "", no attempts
// are []; a field that is marked with omitzero is left out where it is not known, or says nothing. It is encoded with
// the fields in this order.
type Line struct {
	Time              Time             `json:"time"`
	Event             Event            `json:"event"`
	ID                uint64           `json:"id"`
	CarriedBy         record.CarriedBy `json:"carried_by"`
	Service           string           `json:"service"`
	Protocol          string           `json:"protocol"`
	Client            netip.AddrPort   `json:"client"`
	ClientPod         string           `json:"client_pod,omitzero"`
	ClientNode        string           `json:"client_node,omitzero"`
	ClientZone        string           `json:"client_zone,omitzero"`
	OriginalDst       netip.AddrPort   `json:"original_dst"`
	Portal            string           `json:"portal"`
	Proxy             netip.AddrPort   `json:"proxy"` // our own address towards the endpoint
	Endpoint          netip.AddrPort   `json:"endpoint"`
	Pod               string           `json:"pod"` // this, node and zone are the endpoint's
	Node              string           `json:"node"`
	Zone              string           `json:"zone,omitzero"`
	Attempts          []Attempt        `json:"attempts"`
	Ejected           int              `json:"ejected,omitzero"` // endpoints that were left out of the choice
	Replays           int              `json:"replays,omitzero"` // how often what the client had sent was sent again
	Affinity          string           `json:"affinity"`
	BytesFromClient   int64            `json:"bytes_from_client"`
	BytesToEndpoint   *int64           `json:"bytes_to_endpoint,omitzero"` // nil: all that was read
	BytesFromEndpoint int64            `json:"bytes_from_endpoint"`
	BytesToClient     *int64           `json:"bytes_to_client,omitzero"`
	ConnectMS         *float64         `json:"connect_ms"`
	FirstByteMS       *float64         `json:"first_byte_ms"`
	DurationMS        float64          `json:"duration_ms"`
	WaitedMS          float64          `json:"waited_ms,omitzero"`
	Interval          *Interval        `json:"interval,omitzero"` // of Periodic alone
	ClientBlockedMS   float64          `json:"client_blocked_ms,omitzero"`
	EndpointBlockedMS float64          `json:"endpoint_blocked_ms,omitzero"`
	ClosedBy          record.Side      `json:"closed_by"`
	CloseType         record.CloseType `json:"close_type"`
	Outcome           record.Outcome   `json:"outcome"`
	Error             string           `json:"error"`
	Errno             string           `json:"errno,omitzero"` // its name, such as ECONNRESET
	ErrnoNumber       int              `json:"errno_number,omitzero"`
	Termination       string           `json:"termination"`
	Flags             string           `json:"flags"`
	Sample            int              `json:"sample,omitzero"` // connections that it stands for; 0: itself alone
	ClientTCP         *TCP             `json:"client_tcp,omitzero"`
	EndpointTCP       *TCP             `json:"endpoint_tcp,omitzero"`
	PortaldNode       string           `json:"portald_node,omitzero"` // whose record it is, where several nodes were asked

	service                service.PortName // of the last line
	label                  string           // of service
	connect, firstByte     float64          // what ConnectMS and FirstByteMS point to
	toEndpoint, toClient   int64
	clientTCP, endpointTCP TCP
	attempt                [1]Attempt // room for the usual single one
}

// Attempt is a dial of an endpoint, or several that failed alike.
type Attempt struct {
	Endpoint netip.AddrPort `json:"endpoint"`
	Proxy    netip.AddrPort `json:"proxy,omitzero"`
	MS       float64        `json:"ms"`
	Error    string         `json:"error,omitzero"` // empty: it worked
	Times    int            `json:"times,omitzero"` // 0: once
	Hedge    bool           `json:"hedge,omitzero"` // it began while another dial was under way
	Ejection Ejection       `json:"ejection,omitzero"`
}

// Ejection relates a dial to the ejection of its endpoint: the dial caused it, or probed the endpoint.
type Ejection string

// The ejections; "": nothing.
const (
	Ejected     Ejection = "ejected"      // the endpoint was ejected for how it failed the connection
	Probe       Ejection = "probe"        // it had been ejected, and was tried again
	ProbeFailed Ejection = "probe_failed" // both
)

func ejectionOf(a *record.Attempt) Ejection {
	switch {
	case a.Probe && a.Ejected:
		return ProbeFailed
	case a.Probe:
		return Probe
	case a.Ejected:
		return Ejected
	}
	return ""
}

// TCP is TCP_INFO of one socket at the end.
type TCP struct {
	RTTMS             float64 `json:"rtt_ms"`
	RTTVarMS          float64 `json:"rttvar_ms"`
	Retransmits       uint32  `json:"retransmits"`
	Lost              uint32  `json:"lost"`
	DeliveryRate      uint64  `json:"delivery_rate"` // bytes/s
	ReceiverLimitedMS float64 `json:"receiver_limited_ms"`
	SenderLimitedMS   float64 `json:"sender_limited_ms"`
	BusyMS            float64 `json:"busy_ms"`
}

// Interval counts bytes since the last periodic line of a connection, or since its start.
type Interval struct {
	MS                float64 `json:"ms"`
	BytesFromClient   int64   `json:"bytes_from_client"`
	BytesToEndpoint   int64   `json:"bytes_to_endpoint"`
	BytesFromEndpoint int64   `json:"bytes_from_endpoint"`
	BytesToClient     int64   `json:"bytes_to_client"`
}

// From returns the line of a record.
func From(r *record.Record) *Line {
	l := &Line{}
	l.fill(r)
	return l
}

// FillReport makes l the line of a report, as logs have it, and overwrites what it was before.
func (l *Line) FillReport(r Report) {
	l.fill(r.Record)
	l.Event, l.Sample, l.Interval = r.Event, ifMany(r.weight()), nil
	if p := r.Progress; p != nil {
		l.Proxy, l.Interval = p.Proxy, &p.Interval
	}
}

func (l *Line) fill(r *record.Record) {
	l.Time, l.Event, l.ID, l.CarriedBy = Time{r.Start}, End, r.ID, r.CarriedBy
	l.fillService(&r.Service)
	l.Client, l.ClientPod, l.ClientNode, l.ClientZone = r.Client, r.ClientPod, r.ClientNode, r.ClientZone
	l.OriginalDst, l.Portal, l.Proxy = r.OriginalDst, portalKind(r), r.Proxy()
	l.Endpoint, l.Pod, l.Node, l.Zone = r.Endpoint.Addr, r.Endpoint.Pod, r.Endpoint.Node, r.Endpoint.Zone
	l.fillAttempts(r.Attempts)
	l.Ejected, l.Replays, l.Affinity = r.Ejected, r.Replays, r.Affinity
	l.BytesFromClient, l.BytesToEndpoint = r.BytesFromClient, ifOther(r.BytesToEndpoint, r.BytesFromClient, &l.toEndpoint)
	l.BytesFromEndpoint, l.BytesToClient = r.BytesFromEndpoint, ifOther(r.BytesToClient, r.BytesFromEndpoint, &l.toClient)
	l.ConnectMS, l.FirstByteMS = millisIfAny(r.Connect, &l.connect), millisIfAny(r.FirstByte, &l.firstByte)
	l.DurationMS, l.WaitedMS = millis(r.Duration), millis(r.Waited)
	l.ClientBlockedMS, l.EndpointBlockedMS = millis(r.ClientBlocked), millis(r.EndpointBlocked)
	l.ClosedBy, l.CloseType, l.Outcome = r.ClosedBy, r.CloseType, r.Outcome
	l.Error, l.Errno, l.ErrnoNumber = r.Error, errnoName(r.Errno), int(r.Errno)
	l.Termination, l.Flags = Termination(r), Flags(r)
	l.ClientTCP, l.EndpointTCP = l.clientTCP.fill(&r.ClientTCP), l.endpointTCP.fill(&r.EndpointTCP)
}

// fillService reuses the text of the line before if it was of the same Service.
func (l *Line) fillService(name *service.PortName) {
	if *name != l.service || l.label == "" {
		l.service, l.label = *name, name.Label()
	}
	l.Service, l.Protocol = l.label, name.Protocol.String()
}

func (l *Line) fillAttempts(from []record.Attempt) {
	if l.Attempts == nil {
		l.Attempts = l.attempt[:0]
	}
	l.Attempts = l.Attempts[:0]
	for i := range from {
		a := &from[i]
		l.Attempts = append(l.Attempts,
			Attempt{a.Endpoint, a.Proxy, millis(a.Took), a.Err, ifMany(int(a.Times)), a.Hedge, ejectionOf(a)})
	}
}

func ifMany(n int) int {
	if n == 1 {
		return 0
	}
	return n
}

// fill returns t with what is known, nil if nothing is.
func (t *TCP) fill(i *record.TCPInfo) *TCP {
	if !i.Known {
		return nil
	}
	*t = TCP{
		RTTMS: millis(i.RTT), RTTVarMS: millis(i.RTTVar), Retransmits: i.Retransmits, Lost: i.Lost,
		DeliveryRate: i.DeliveryRate, ReceiverLimitedMS: millis(i.ReceiverLimited),
		SenderLimitedMS: millis(i.SenderLimited), BusyMS: millis(i.Busy),
	}
	return t
}

// ifOther puts delivered into store and returns it, or nil if as much was delivered as was read.
func ifOther(delivered, read int64, store *int64) *int64 {
	if delivered == read {
		return nil
	}
	*store = delivered
	return store
}

// portalKind returns the kind of frontend that the client dialled, "" if it dialled none.
func portalKind(r *record.Record) string {
	if r.Outcome == record.OutcomeNotPortal {
		return ""
	}
	return r.Portal.String()
}

// millis returns d in milliseconds, rounded to the microsecond: three decimals at most.
func millis(d time.Duration) float64 {
	return math.Round(float64(d)/float64(time.Microsecond)) / 1000
}

// millisIfAny puts d in milliseconds into store and returns it, or nil for a time that never came.
func millisIfAny(d time.Duration, store *float64) *float64 {
	if d < 0 {
		return nil
	}
	*store = millis(d)
	return store
}

// Time is a time that is written in UTC as RFC 3339 with six decimals, always, so that columns align.
type Time struct{ time.Time }

// AppendText implements encoding.TextAppender. The time package formats whole seconds three times as fast as any layout
// with decimals.
func (t Time) AppendText(b []byte) ([]byte, error) {
	b = t.UTC().AppendFormat(b, time.RFC3339)
	b[len(b)-1] = '.'
	for us, unit := t.Nanosecond()/1000, 100_000; unit > 0; unit /= 10 {
		b = append(b, byte('0'+us/unit%10))
	}
	return append(b, 'Z'), nil
}

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	b, err := t.AppendText(append(make([]byte, 0, len(`"2006-01-02T15:04:05.000000Z"`)), '"'))
	return append(b, '"'), err
}

// End is when the connection ended, or until when the line tells of it.
func (l *Line) End() time.Time {
	return l.Time.Add(time.Duration(l.DurationMS * float64(time.Millisecond)))
}

// Dials is how many dials there were.
func (l *Line) Dials() (n int) {
	for _, a := range l.Attempts {
		n += max(a.Times, 1)
	}
	return n
}

// Failed tells whether the line is of a connection that failed, or of which a dial did.
func (l *Line) Failed() bool {
	failed := func(a Attempt) bool { return a.Error != "" && a.Error != record.Overtaken }
	return l.Event == End && !l.Outcome.Well() || slices.ContainsFunc(l.Attempts, failed)
}
