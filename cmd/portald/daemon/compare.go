package daemon

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kernel"
	"github.com/portald/portald/proxy/kube/apiclient"
	"github.com/portald/portald/proxy/kube/compare"
	"github.com/portald/portald/proxy/kube/watch"
)

// Cluster says where a cluster's objects are to be read, once.
type Cluster struct {
	Manifests  []string // files, folders, or - for Stdin
	Stdin      io.Reader
	Kubeconfig string // of an API server, without manifests
}

// Compare prints the Services of a cluster that portald would serve otherwise than kube-proxy, with what to do.
func Compare(ctx context.Context, cfg *config.Config, cluster Cluster, log *logrus.Logger, out io.Writer) error {
	objects, err := cluster.read(ctx, log)
	if err != nil {
		return err
	}
	r := compare.Compare(objects, compare.Options{
		Translate: translateOptions(cfg, true, nil), ClientAddress: cfg.Settings.Policy.ClientAddress,
		MaxBound: kernel.MaxBound,
	})
	return reportComparison(r, out)
}

func (c Cluster) read(ctx context.Context, log *logrus.Logger) (*compare.Objects, error) {
	if len(c.Manifests) > 0 {
		return compare.ReadFiles(c.Manifests, c.Stdin)
	}
	watch.QuietLibraries(log)
	client, err := apiclient.New(apiclient.Options{Kubeconfig: c.Kubeconfig})
	if err != nil {
		return nil, err
	}
	return compare.List(ctx, client)
}

func reportComparison(r compare.Result, out io.Writer) error {
	otherwise := map[service.Name]bool{}
	for _, d := range r.Differences {
		otherwise[d.Service] = true
	}
	fmt.Fprintf(out, "%d Services: %d in userspace mode, %d in the kernel; %d differ from kube-proxy\n", r.Services,
		r.Userspace, r.Services-r.Userspace, len(otherwise))
	if r.Userspace > 0 {
		fmt.Fprint(out, "In userspace mode endpoints see the node's address, unless clientAddress says otherwise.\n")
	}
	if len(r.Differences) > 0 {
		table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
		fmt.Fprint(table, "\nSERVICE\tFIELD\tVALUE\tDIFFERENCE, AND WHAT TO DO\n")
		for _, d := range r.Differences {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", d.Service, d.Where(), d.Value, d.Advice)
		}
		if err := table.Flush(); err != nil {
			return fmt.Errorf("write differences: %w", err)
		}
	}
	for _, m := range r.Missing {
		fmt.Fprintf(out, "not compared: %s\n", m)
	}
	return nil
}
