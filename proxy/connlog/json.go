package connlog

import (
	"encoding/json"
	"math"
	"net/netip"
	"strconv"

	"github.com/portald/portald/platform/printable"
)

// AppendJSON appends a line as one line of JSON. It writes what encoding/json does, many times as fast. Where each
// datagram is a flow of its own, a line is the greater part of what a record costs: so the fields are spelled out here,
// and not taken from Fields.
func AppendJSON(b []byte, l *Line) []byte {
	b, _ = l.Time.AppendText(append(b, `{"time":"`...)) // it has no errors
	b = jsonText(b, `","event":`, string(l.Event))
	b = strconv.AppendUint(append(b, `,"id":`...), l.ID, 10)
	b = jsonText(b, `,"carried_by":`, string(l.CarriedBy))
	b = jsonText(b, `,"service":`, l.Service)
	b = jsonText(b, `,"protocol":`, l.Protocol)
	b = jsonAddress(b, `,"client":`, &l.Client)
	b = jsonTextIfAny(b, `,"client_pod":`, l.ClientPod)
	b = jsonTextIfAny(b, `,"client_node":`, l.ClientNode)
	b = jsonTextIfAny(b, `,"client_zone":`, l.ClientZone)
	b = jsonAddress(b, `,"original_dst":`, &l.OriginalDst)
	b = jsonText(b, `,"portal":`, l.Portal)
	b = jsonAddress(b, `,"proxy":`, &l.Proxy)
	b = jsonAddress(b, `,"endpoint":`, &l.Endpoint)
	b = jsonText(b, `,"pod":`, l.Pod)
	b = jsonText(b, `,"node":`, l.Node)
	b = jsonTextIfAny(b, `,"zone":`, l.Zone)
	b = jsonAttempts(append(b, `,"attempts":[`...), l.Attempts)
	b = jsonIntIfAny(append(b, ']'), `,"ejected":`, l.Ejected)
	b = jsonIntIfAny(b, `,"replays":`, l.Replays)
	b = jsonText(b, `,"affinity":`, l.Affinity)
	b = jsonInt(b, `,"bytes_from_client":`, l.BytesFromClient)
	if l.BytesToEndpoint != nil {
		b = jsonInt(b, `,"bytes_to_endpoint":`, *l.BytesToEndpoint)
	}
	b = jsonInt(b, `,"bytes_from_endpoint":`, l.BytesFromEndpoint)
	if l.BytesToClient != nil {
		b = jsonInt(b, `,"bytes_to_client":`, *l.BytesToClient)
	}
	b = jsonMillisOrNull(b, `,"connect_ms":`, l.ConnectMS)
	b = jsonMillisOrNull(b, `,"first_byte_ms":`, l.FirstByteMS)
	b = jsonMillis(b, `,"duration_ms":`, l.DurationMS)
	if l.WaitedMS != 0 {
		b = jsonMillis(b, `,"waited_ms":`, l.WaitedMS)
	}
	if i := l.Interval; i != nil {
		b = jsonMillis(b, `,"interval":{"ms":`, i.MS)
		b = jsonInt(b, `,"bytes_from_client":`, i.BytesFromClient)
		b = jsonInt(b, `,"bytes_to_endpoint":`, i.BytesToEndpoint)
		b = jsonInt(b, `,"bytes_from_endpoint":`, i.BytesFromEndpoint)
		b = append(jsonInt(b, `,"bytes_to_client":`, i.BytesToClient), '}')
	}
	if l.ClientBlockedMS != 0 {
		b = jsonMillis(b, `,"client_blocked_ms":`, l.ClientBlockedMS)
	}
	if l.EndpointBlockedMS != 0 {
		b = jsonMillis(b, `,"endpoint_blocked_ms":`, l.EndpointBlockedMS)
	}
	b = jsonText(b, `,"closed_by":`, string(l.ClosedBy))
	b = jsonText(b, `,"close_type":`, string(l.CloseType))
	b = jsonText(b, `,"outcome":`, string(l.Outcome))
	b = jsonText(b, `,"error":`, l.Error)
	b = jsonTextIfAny(b, `,"errno":`, l.Errno)
	b = jsonIntIfAny(b, `,"errno_number":`, l.ErrnoNumber)
	b = jsonText(b, `,"termination":`, l.Termination)
	b = jsonText(b, `,"flags":`, l.Flags)
	b = jsonIntIfAny(b, `,"sample":`, l.Sample)
	b = jsonTCP(b, `,"client_tcp":`, l.ClientTCP)
	b = jsonTCP(b, `,"endpoint_tcp":`, l.EndpointTCP)
	b = jsonTextIfAny(b, `,"portald_node":`, l.PortaldNode)
	return append(b, '}', '\n')
}

func jsonAttempts(b []byte, all []Attempt) []byte {
	for i := range all {
		if i > 0 {
			b = append(b, ',')
		}
		a := &all[i]
		b = jsonAddress(b, `{"endpoint":`, &a.Endpoint)
		if a.Proxy.IsValid() {
			b = jsonAddress(b, `,"proxy":`, &a.Proxy)
		}
		b = jsonMillis(b, `,"ms":`, a.MS)
		b = jsonTextIfAny(b, `,"error":`, a.Error)
		b = jsonIntIfAny(b, `,"times":`, a.Times)
		if a.Hedge {
			b = append(b, `,"hedge":true`...)
		}
		b = append(jsonTextIfAny(b, `,"ejection":`, string(a.Ejection)), '}')
	}
	return b
}

func jsonTCP(b []byte, name string, t *TCP) []byte {
	if t == nil {
		return b
	}
	b = jsonMillis(append(b, name...), `{"rtt_ms":`, t.RTTMS)
	b = jsonMillis(b, `,"rttvar_ms":`, t.RTTVarMS)
	b = jsonInt(b, `,"retransmits":`, int64(t.Retransmits))
	b = jsonInt(b, `,"lost":`, int64(t.Lost))
	b = strconv.AppendUint(append(b, `,"delivery_rate":`...), t.DeliveryRate, 10)
	b = jsonMillis(b, `,"receiver_limited_ms":`, t.ReceiverLimitedMS)
	b = jsonMillis(b, `,"sender_limited_ms":`, t.SenderLimitedMS)
	return append(jsonMillis(b, `,"busy_ms":`, t.BusyMS), '}')
}

// The following append a field. Its name is the text before the value: comma, quotes and colon too.

func jsonText(b []byte, name, s string) []byte { return AppendJSONText(append(b, name...), s) }

func jsonTextIfAny(b []byte, name, s string) []byte {
	if s == "" {
		return b
	}
	return jsonText(b, name, s)
}

func jsonAddress(b []byte, name string, a *netip.AddrPort) []byte {
	return AppendJSONAddress(append(b, name...), *a)
}

func jsonInt(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(b, name...), n, 10)
}

func jsonIntIfAny(b []byte, name string, n int) []byte {
	if n == 0 {
		return b
	}
	return jsonInt(b, name, int64(n))
}

func jsonMillis(b []byte, name string, ms float64) []byte {
	return appendMillis(append(b, name...), ms)
}

func jsonMillisOrNull(b []byte, name string, ms *float64) []byte {
	if ms == nil {
		return append(append(b, name...), "null"...)
	}
	return jsonMillis(b, name, *ms)
}

// AppendJSONAddress appends an address as a JSON text, which is empty if there is none.
func AppendJSONAddress(b []byte, a netip.AddrPort) []byte {
	return append(appendAddress(append(b, '"'), a), '"')
}

func appendAddress(b []byte, a netip.AddrPort) []byte {
	switch ip := a.Addr(); {
	case !a.IsValid():
		return b
	case ip.Is4():
		for _, n := range ip.As4() {
			b = append(b, octets[n]...)
		}
		b[len(b)-1] = ':' // it was a point
		return strconv.AppendUint(b, uint64(a.Port()), 10)
	}
	return a.AppendTo(b)
}

// octets are the numbers of an IPv4 address, each with the point behind it.
var octets = func() (all [256]string) {
	for n := range all {
		all[n] = strconv.Itoa(n) + "."
	}
	return all
}()

// plain has the bytes that encoding/json does not escape in texts.
var plain = func() (all [256]bool) {
	for c := ' '; c <= '~'; c++ {
		all[c] = c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
	}
	return all
}()

// AppendJSONText appends a JSON text, in which what is not printable is escaped.
func AppendJSONText(b []byte, s string) []byte {
	for i := range len(s) {
		if !plain[s[i]] {
			escaped, _ := json.Marshal(s) // texts have no errors
			return append(b, printable.JSON(escaped)...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// appendMillis appends milliseconds with three decimals at most.
func appendMillis(b []byte, ms float64) []byte {
	micros := math.Round(ms * 1000)
	if micros/1000 != ms || micros < 0 || micros >= 1<<53 {
		return strconv.AppendFloat(b, ms, 'f', -1, 64)
	}
	n := int64(micros)
	b = strconv.AppendInt(b, n/1000, 10)
	for rest, unit := n%1000, int64(100); rest > 0; rest, unit = rest%unit, unit/10 {
		if unit == 100 {
			b = append(b, '.')
		}
		b = append(b, byte('0'+rest/unit))
	}
	return b
}
