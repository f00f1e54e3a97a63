package webui

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/portald/portald/proxy/explain"
)

// explainTime bounds how long a node may take: it lists the rules of its kernel.
const explainTime = 20 * time.Second

// Explained is what one node explains.
type Explained struct {
	PortaldNode string `json:"portald_node"`
	explain.Report
}

var errNoNode = errors.New("node: no node of this name answers")

// explain asks one node, the first one if the query names none: it runs commands there.
func (c *cluster) explain(ctx context.Context, query url.Values) (any, error) {
	what, from := query.Get("what"), query.Get("from")
	if _, err := explain.Parse(what, from); err != nil {
		return nil, err
	}
	nodes, _ := c.here()
	for _, n := range nodes {
		if name := query.Get("node"); name != "" && name != n.name {
			continue
		}
		ctx, cancel := within(ctx, explainTime)
		defer cancel()
		report, err := n.client.Explain(ctx, what, from)
		return Explained{n.name, report}, why(ctx, err)
	}
	return nil, errNoNode
}
