package plane

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// ready is the content of ready.json, for clients of a control plane.
type ready struct {
	URL         string             `json:"url"`         // of the API server
	CA          string             `json:"ca"`          // file of its authority's certificate
	Kubeconfigs map[string]string  `json:"kubeconfigs"` // file of each user
	PIDs        map[string]int     `json:"pids"`        // of each program
	Seconds     map[string]float64 `json:"seconds"`     // after which each program was ready
}

func newReady(o Options, at place, ids identities) ready {
	return ready{
		URL: at.url(), CA: o.path(caCert), Kubeconfigs: ids.kubeconfigs,
		PIDs: map[string]int{}, Seconds: map[string]float64{},
	}
}

// writeReady writes the file as a whole and returns its name.
func (p *plane) writeReady() (string, error) {
	text, err := json.MarshalIndent(p.ready, "", "  ")
	if err != nil {
		return "", err
	}
	file := filepath.Join(p.dir, "ready.json")
	if err := os.WriteFile(file+".new", append(text, '\n'), 0o600); err != nil {
		return "", err
	}
	return file, os.Rename(file+".new", file)
}
