package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/cmd/portald/daemon"
)

func configCommand() *cobra.Command {
	cmd := parent(&cobra.Command{Use: "config", Short: "Check a configuration file"})
	cmd.SetHelpFunc(help(nil))
	cmd.AddCommand(configCheckCommand())
	return cmd
}

func configCheckCommand() *cobra.Command {
	var cluster daemon.Cluster
	cmd := &cobra.Command{
		Use:   "check FILE [--manifests PATH | --kubeconfig FILE]",
		Short: "Print what a configuration file means, which settings have no effect here, and its errors",
		Long: `Print what a configuration file means, which settings have no effect here, and all errors and warnings. Given the
objects of a cluster, it also prints the Services that portald would serve differently from kube-proxy with this
configuration, and what to do about each. It changes nothing.`,
		Example: `  # With a dump of the cluster.
  kubectl get services,endpointslices,nodes,pods,namespaces,networkpolicies -A -o yaml |
    portald config check config.yaml --manifests -

  # With the cluster itself, as an administrator.
  portald config check config.yaml --kubeconfig ~/.kube/config`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := config.Check(args[0], cmd.OutOrStdout())
			switch {
			case err != nil:
				return err
			case len(cluster.Manifests) > 0 && cluster.Kubeconfig != "":
				return errors.New("--manifests and --kubeconfig: name one of the two")
			case len(cluster.Manifests) == 0 && cluster.Kubeconfig == "":
				return nil
			}
			fmt.Fprintln(cmd.OutOrStdout())
			cluster.Stdin = cmd.InOrStdin()
			log := cfg.NewLogger(cmd.ErrOrStderr())
			return daemon.Compare(cmd.Context(), cfg, cluster, log, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringSliceVar(&cluster.Manifests, "manifests", nil,
		"compare with kube-proxy for the objects in this `PATH`: a file, a folder, or - for standard input")
	cmd.Flags().StringVar(&cluster.Kubeconfig, "kubeconfig", "",
		"compare with kube-proxy for the objects of the API server in this `FILE`")
	return cmd
}
