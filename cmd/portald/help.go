package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/portald/portald/cmd/portald/config"
)

const long = `portald is a Kubernetes service proxy that you can see into.

It watches Services and EndpointSlices, at the API server or in files, and leads the traffic of ClusterIPs, NodePorts,
external and load-balancer addresses to endpoints, in one of two modes for each Service.

In userspace it opens a listener for each service port. For each connection it picks an endpoint in turn (or by ClientIP
affinity), dials it, tries another when that fails, carries the bytes both ways, and writes one record: who connected, to
what, where it went, what was tried, how much was carried, and who ended it how. In the kernel modes iptables, nftables
or IPVS lead connections straight to endpoints. --proxy-mode says which is the default; the annotation portald.io/mode of
a Service, userspace or kernel, has that one carried otherwise, at any time and without breaking its connections.

It needs the capability NET_ADMIN (with the legacy variant of iptables NET_RAW too), and the commands iptables and
iptables-restore (ip6tables too, where IPv6 is to be served), but for --writer nftables, which needs none. On SIGTERM in
userspace mode portals are taken away, open connections have the drain timeout to end, and the rest is cut; in a kernel
mode the rules stay, and the kernel carries all until the next start. After a crash, the next start removes what was
left behind; "portald cleanup" does so without a start.`

const example = `  # Take the place of kube-proxy on this node, with its own configuration file.
  portald --config /var/lib/kube-proxy/config.conf --hostname-override "$NODE_NAME"

  # Have the kernel carry, by nftables, and one Service in userspace with a record for each connection.
  portald --kubeconfig proxy.conf --proxy-mode nftables --cluster-cidr 10.244.0.0/16 --connection-log -
  kubectl annotate service cart portald.io/mode=userspace

  # Say what of that file portald heeds, and what not.
  portald config check /var/lib/kube-proxy/config.conf

  # Serve what a cluster has, from a dump of it, and show each connection.
  kubectl get services,endpointslices,nodes -A -o yaml > cluster.yaml
  portald --manifests cluster.yaml --connection-log -

  # Serve a folder that is followed as it changes; records as JSON for a log collector.
  portald --manifests /etc/portald/manifests --connection-log /var/log/portald.json --connection-log-format json

  # Remove all of portald's rules.
  portald cleanup`

// helpWidth is where help texts are folded, in columns.
const helpWidth = 110

// help shows a command as a manual page does: what it is, how it is called, and its flags by what they are about.
func help(sections []config.Section) func(*cobra.Command, []string) {
	return func(cmd *cobra.Command, _ []string) {
		w := cmd.OutOrStdout()
		fmt.Fprintf(w, "%s\n\nUsage:\n  %s\n", cmd.Long, cmd.UseLine())
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(w, "  %s %-14s %s\n", cmd.Name(), sub.Name(), sub.Short)
			}
		}
		if cmd.Example != "" {
			fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
		}
		for _, s := range sections {
			fmt.Fprintf(w, "\n%s:\n%s", s.Title, s.Flags.FlagUsagesWrapped(helpWidth))
		}
	}
}
