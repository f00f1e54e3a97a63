package splice

import "github.com/portald/portald/portal/service"

// Bytes counts the bytes read from clients and from endpoints.
type Bytes struct{ FromClient, FromEndpoint int64 }

// OpenBytes sums up the bytes of open connections and sessions, by service port. Like Snapshot it stops nothing, and it
// allocates less.
func (r *Registry) OpenBytes() map[service.PortName]Bytes {
	fronts := map[*Front]Bytes{}
	for _, m := range r.open() {
		f := m.common()
		sum := fronts[f.front]
		sum.FromClient += f.traffic.FromClient.Load()
		sum.FromEndpoint += f.traffic.FromEndpoint.Load()
		fronts[f.front] = sum
	}
	out := make(map[service.PortName]Bytes, len(fronts))
	for front, more := range fronts {
		sum := out[front.name]
		out[front.name] = Bytes{sum.FromClient + more.FromClient, sum.FromEndpoint + more.FromEndpoint}
	}
	return out
}
