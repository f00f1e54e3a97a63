package adminsocket

import (
	"strconv"
	"time"

	"github.com/portald/portald/proxy/connlog"
)

// appendConnection appends what encoding/json would write: a node may have 100,000 connections, which takes that a
// second.
func appendConnection(b []byte, c *Connection) ([]byte, error) {
	b = strconv.AppendUint(append(b, `{"id":`...), c.ID, 10)
	b = connlog.AppendJSONText(append(b, `,"carried_by":`...), c.CarriedBy)
	b = connlog.AppendJSONText(append(b, `,"service":`...), c.Service)
	b = connlog.AppendJSONText(append(b, `,"protocol":`...), c.Protocol)
	b = connlog.AppendJSONText(append(b, `,"state":`...), c.State)
	b = connlog.AppendJSONAddress(append(b, `,"client":`...), c.Client)
	if c.ClientPod != "" {
		b = connlog.AppendJSONText(append(b, `,"client_pod":`...), c.ClientPod)
	}
	if c.ClientNode != "" {
		b = connlog.AppendJSONText(append(b, `,"client_node":`...), c.ClientNode)
	}
	b = connlog.AppendJSONAddress(append(b, `,"original_dst":`...), c.OriginalDst)
	b = connlog.AppendJSONText(append(b, `,"portal":`...), c.Portal)
	b = connlog.AppendJSONAddress(append(b, `,"proxy":`...), c.Proxy)
	b = connlog.AppendJSONAddress(append(b, `,"endpoint":`...), c.Endpoint)
	b = connlog.AppendJSONText(append(b, `,"pod":`...), c.Pod)
	b = connlog.AppendJSONText(append(b, `,"node":`...), c.Node)
	if c.EndpointState != "" {
		b = connlog.AppendJSONText(append(b, `,"endpoint_state":`...), c.EndpointState)
	}
	b = appendTime(append(b, `,"start":`...), c.Start)
	b = appendTime(append(b, `,"last_moved":`...), c.LastMoved)
	if b = append(b, `,"first_byte_ms":`...); c.FirstByteMS != nil {
		b = appendMilliseconds(b, *c.FirstByteMS)
	} else {
		b = append(b, "null"...)
	}
	b = strconv.AppendInt(append(b, `,"attempts":`...), int64(c.Attempts), 10)
	b = strconv.AppendInt(append(b, `,"bytes_from_client":`...), c.BytesFromClient, 10)
	b = strconv.AppendInt(append(b, `,"bytes_to_endpoint":`...), c.BytesToEndpoint, 10)
	b = strconv.AppendInt(append(b, `,"bytes_from_endpoint":`...), c.BytesFromEndpoint, 10)
	b = strconv.AppendInt(append(b, `,"bytes_to_client":`...), c.BytesToClient, 10)
	b = appendTCP(b, `,"client_tcp":`, c.ClientTCP)
	b = appendTCP(b, `,"endpoint_tcp":`, c.EndpointTCP)
	if c.PortaldNode != "" {
		b = connlog.AppendJSONText(append(b, `,"portald_node":`...), c.PortaldNode)
	}
	return append(b, '}'), nil
}

func appendTCP(b []byte, name string, t *TCP) []byte {
	if t == nil {
		return b
	}
	b = appendMilliseconds(append(append(b, name...), `{"rtt_ms":`...), t.RTTms)
	b = appendMilliseconds(append(b, `,"rttvar_ms":`...), t.RTTVarms)
	b = strconv.AppendUint(append(b, `,"retransmits":`...), uint64(t.Retransmits), 10)
	b = strconv.AppendUint(append(b, `,"lost":`...), uint64(t.Lost), 10)
	b = strconv.AppendUint(append(b, `,"delivery_rate":`...), t.DeliveryRate, 10)
	return append(b, '}')
}

func appendMilliseconds(b []byte, ms float64) []byte { return strconv.AppendFloat(b, ms, 'f', -1, 64) }

func appendTime(b []byte, t time.Time) []byte {
	return append(t.AppendFormat(append(b, '"'), time.RFC3339Nano), '"')
}
