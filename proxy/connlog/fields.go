package connlog

import (
	"log/slog"
	"net/netip"
)

// FieldWriter takes one field after the other. A value is a text, a number, true, nil, or a pointer to a Time, an
// address, an object or the attempts: what is behind it must not be kept.
type FieldWriter interface {
	Field(name string, value slog.Value)
}

// Object is implemented by values with named fields, for formats that write fields one by one.
type Object interface {
	Fields(to FieldWriter)
}

// Fields writes the fields in the order of Line.
func (l *Line) Fields(to FieldWriter) {
	text := func(name, s string) { to.Field(name, slog.StringValue(s)) }
	textIfAny := func(name, s string) {
		if s != "" {
			text(name, s)
		}
	}
	address := func(name string, a *netip.AddrPort) { to.Field(name, slog.AnyValue(a)) }
	integer := func(name string, n int64) { to.Field(name, slog.Int64Value(n)) }
	time := func(name string, ms *float64) {
		if ms == nil {
			to.Field(name, slog.Value{})
			return
		}
		to.Field(name, slog.Float64Value(*ms))
	}
	to.Field("time", slog.AnyValue(&l.Time))
	text("event", string(l.Event))
	to.Field("id", slog.Uint64Value(l.ID))
	text("carried_by", string(l.CarriedBy))
	text("service", l.Service)
	text("protocol", l.Protocol)
	address("client", &l.Client)
	textIfAny("client_pod", l.ClientPod)
	textIfAny("client_node", l.ClientNode)
	textIfAny("client_zone", l.ClientZone)
	address("original_dst", &l.OriginalDst)
	text("portal", l.Portal)
	address("proxy", &l.Proxy)
	address("endpoint", &l.Endpoint)
	text("pod", l.Pod)
	text("node", l.Node)
	textIfAny("zone", l.Zone)
	to.Field("attempts", slog.AnyValue(&l.Attempts))
	if l.Ejected != 0 {
		integer("ejected", int64(l.Ejected))
	}
	if l.Replays != 0 {
		integer("replays", int64(l.Replays))
	}
	text("affinity", l.Affinity)
	integer("bytes_from_client", l.BytesFromClient)
	if l.BytesToEndpoint != nil {
		integer("bytes_to_endpoint", *l.BytesToEndpoint)
	}
	integer("bytes_from_endpoint", l.BytesFromEndpoint)
	if l.BytesToClient != nil {
		integer("bytes_to_client", *l.BytesToClient)
	}
	time("connect_ms", l.ConnectMS)
	time("first_byte_ms", l.FirstByteMS)
	time("duration_ms", &l.DurationMS)
	if l.WaitedMS != 0 {
		time("waited_ms", &l.WaitedMS)
	}
	if l.Interval != nil {
		to.Field("interval", slog.AnyValue(l.Interval))
	}
	if l.ClientBlockedMS != 0 {
		time("client_blocked_ms", &l.ClientBlockedMS)
	}
	if l.EndpointBlockedMS != 0 {
		time("endpoint_blocked_ms", &l.EndpointBlockedMS)
	}
	text("closed_by", string(l.ClosedBy))
	text("close_type", string(l.CloseType))
	text("outcome", string(l.Outcome))
	text("error", l.Error)
	textIfAny("errno", l.Errno)
	if l.ErrnoNumber != 0 {
		integer("errno_number", int64(l.ErrnoNumber))
	}
	text("termination", l.Termination)
	text("flags", l.Flags)
	if l.Sample != 0 {
		integer("sample", int64(l.Sample))
	}
	if l.ClientTCP != nil {
		to.Field("client_tcp", slog.AnyValue(l.ClientTCP))
	}
	if l.EndpointTCP != nil {
		to.Field("endpoint_tcp", slog.AnyValue(l.EndpointTCP))
	}
}

func (t *TCP) Fields(to FieldWriter) {
	to.Field("rtt_ms", slog.Float64Value(t.RTTMS))
	to.Field("rttvar_ms", slog.Float64Value(t.RTTVarMS))
	to.Field("retransmits", slog.Int64Value(int64(t.Retransmits)))
	to.Field("lost", slog.Int64Value(int64(t.Lost)))
	to.Field("delivery_rate", slog.Uint64Value(t.DeliveryRate))
	to.Field("receiver_limited_ms", slog.Float64Value(t.ReceiverLimitedMS))
	to.Field("sender_limited_ms", slog.Float64Value(t.SenderLimitedMS))
	to.Field("busy_ms", slog.Float64Value(t.BusyMS))
}

func (i *Interval) Fields(to FieldWriter) {
	to.Field("ms", slog.Float64Value(i.MS))
	to.Field("bytes_from_client", slog.Int64Value(i.BytesFromClient))
	to.Field("bytes_to_endpoint", slog.Int64Value(i.BytesToEndpoint))
	to.Field("bytes_from_endpoint", slog.Int64Value(i.BytesFromEndpoint))
	to.Field("bytes_to_client", slog.Int64Value(i.BytesToClient))
}

func (a *Attempt) Fields(to FieldWriter) {
	to.Field("endpoint", slog.AnyValue(&a.Endpoint))
	if a.Proxy.IsValid() {
		to.Field("proxy", slog.AnyValue(&a.Proxy))
	}
	to.Field("ms", slog.Float64Value(a.MS))
	if a.Error != "" {
		to.Field("error", slog.StringValue(a.Error))
	}
	if a.Times != 0 {
		to.Field("times", slog.Int64Value(int64(a.Times)))
	}
	if a.Hedge {
		to.Field("hedge", slog.BoolValue(true))
	}
	if a.Ejection != "" {
		to.Field("ejection", slog.StringValue(string(a.Ejection)))
	}
}
