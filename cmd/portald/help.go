package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/portald/portald/cmd/portald/config"
)

const short = `portald is a Kubernetes service proxy that you can see into. It forwards the traffic of Services to endpoints: in
userspace mode with a record of each connection, in the kernel modes by rules of iptables, nftables or IPVS.`

const long = `portald is a Kubernetes service proxy that you can see into.

It watches Services and EndpointSlices, at the API server or in files, and forwards the traffic of ClusterIPs,
NodePorts, external and load-balancer addresses to endpoints, in one of two modes for each Service.

In userspace mode it opens a listener for each service port. For each connection it picks an endpoint round-robin
(or by ClientIP affinity), dials it, tries another if that fails, copies bytes in both directions, and writes one
record: the client, the frontend, the endpoint, failed attempts, bytes, and which side ended the connection, and
how. In the kernel modes rules of iptables, nftables or IPVS forward connections directly to endpoints. --proxy-mode
sets the default; the annotation portald.io/mode of a Service, userspace or kernel, overrides it for that Service, at
any time and without breaking its connections.

It needs the capability NET_ADMIN (with the legacy variant of iptables NET_RAW too), and the commands iptables and
iptables-restore (for IPv6 ip6tables too); --writer nftables needs no command. After SIGTERM the kernel carries all
Services until the next start; open connections have the drain timeout to end, and the rest are reset. After Ctrl-C
with manifests in userspace mode portald removes its rules; --on-exit changes both. After a crash the next start
removes what was left behind; "portald cleanup" does the same without starting portald.

On Windows portald serves Services in userspace mode: it gives their addresses to an interface of the node, with netsh.
It needs administrator rights there, and "portald service install" makes it a service.`

const example = `  # Replace kube-proxy on this node, with its own configuration file.
  portald --config /var/lib/kube-proxy/config.conf --hostname-override "$NODE_NAME"

  # nftables by default, and userspace mode for one Service, with a record of each of its connections.
  portald --kubeconfig proxy.conf --proxy-mode nftables --cluster-cidr 10.244.0.0/16 --connection-log -
  kubectl annotate service cart portald.io/mode=userspace

  # Print which settings of that file take effect in portald, and which do not.
  portald config check /var/lib/kube-proxy/config.conf

  # Serve a cluster from a dump of its objects, and print a record of each connection.
  kubectl get services,endpointslices,nodes -A -o yaml > cluster.yaml
  portald --manifests cluster.yaml --connection-log -

  # Serve a folder of manifests and follow its changes; records as JSON for a log collector.
  portald --manifests /etc/portald/manifests --connection-log /var/log/portald.json --connection-log-format json

  # Remove all of portald's rules.
  portald cleanup`

// helpWidth is the width of help texts, in columns.
const helpWidth = 110

// screen is the help of portald itself: what fits a screen.
func screen(cmd *cobra.Command, _ []string) {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "%s\n\nUsage:\n  %-33s Run the daemon\n  portald COMMAND [flags]\n", short, cmd.UseLine())
	for _, group := range cmd.Groups() {
		fmt.Fprintf(w, "\n%s:\n", group.Title)
		commands(w, cmd, group.ID)
	}
	fmt.Fprintf(w, `
Help:
  portald help COMMAND   A command: its flags, with examples
  portald help flags     The daemon: how it works, every flag, with examples
`)
}

// helpCommand returns the command that prints the help of another, or, by flags, all about the daemon.
func helpCommand(flags func(*cobra.Command, []string)) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "help [COMMAND | flags]",
		Short:             "Print the help of a command, or every flag of the daemon",
		ValidArgsFunction: completeHelp,
		RunE: func(cmd *cobra.Command, given []string) error {
			if slices.Equal(given, []string{"flags"}) {
				flags(cmd.Root(), nil)
				return nil
			}
			of, rest, err := cmd.Root().Find(given)
			if err == nil {
				err = onlyCommands(of, rest)
			}
			if err != nil {
				return err
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
	cmd.SetHelpFunc(help(nil))
	return cmd
}

// completeHelp completes the commands that helpCommand explains.
func completeHelp(cmd *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	of, rest, err := cmd.Root().Find(given)
	if err != nil || len(rest) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for _, sub := range of.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	if !of.HasParent() {
		names = append(names, "flags")
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// help returns a help function in the layout of a manual page: description, usage, examples, and flags by section, or
// if there are no sections the command's own.
func help(sections []config.Section) func(*cobra.Command, []string) {
	return func(cmd *cobra.Command, _ []string) {
		w := cmd.OutOrStdout()
		fmt.Fprintf(w, "%s\n\nUsage:\n  %s\n", cmp.Or(cmd.Long, cmd.Short), cmd.UseLine())
		commands(w, cmd, "")
		if cmd.Example != "" {
			fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
		}
		if own := cmd.LocalFlags(); len(sections) == 0 && own.HasAvailableFlags() {
			fmt.Fprintf(w, "\nFlags:\n%s", own.FlagUsagesWrapped(helpWidth))
		}
		for _, s := range sections {
			fmt.Fprintf(w, "\n%s:\n%s", s.Title, s.Flags.FlagUsagesWrapped(helpWidth))
		}
	}
}

// commands lists the commands of a group.
func commands(w io.Writer, cmd *cobra.Command, group string) {
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && sub.GroupID == group {
			fmt.Fprintf(w, "  %s %-14s %s\n", cmd.CommandPath(), sub.Name(), sub.Short)
		}
	}
}
