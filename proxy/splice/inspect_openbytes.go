package splice

import "github.com/portald/portald/portal/service"

// Bytes are what was read of clients and of endpoints.
type Bytes struct{ FromClient, FromEndpoint int64 }

// OpenBytes are those of what is open, by service port. It stops nothing, as Snapshot, and allocates less.
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
