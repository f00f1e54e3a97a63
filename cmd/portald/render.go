package main

import (
	"github.com/spf13/cobra"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/cmd/portald/daemon"
)

func renderCommand() *cobra.Command {
	flags := config.NewFlags()
	flags.AnySystem = true
	var only string
	cmd := &cobra.Command{
		Use:   "render --manifests PATH [--service NAMESPACE/NAME] [flags]",
		Short: "Print the rules for manifests, in the syntax of iptables-restore, nft or ipvsadm",
		Long: `Print the rules that portald with these flags would write for these manifests, in the syntax of
iptables-restore, of nft -f, or of ipvsadm, ipset and iptables-restore. The command needs no privileges and no
cluster, changes nothing, and prints the same output for the same input. It assumes that listeners of userspace
mode have the first free proxy ports. If a document cannot be read, it prints nothing and fails.

With --service it prints only the rules that would not be there without that Service, in the chains, sets and
tables that have them.`,
		Example: `  # The rules for a cluster in nftables mode, from a dump of the cluster.
  kubectl get services,endpointslices,nodes -A -o yaml | portald render --manifests - --proxy-mode nftables

  # The rules of one Service.
  portald render --manifests cluster.yaml --proxy-mode iptables --service kube-system/kube-dns`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, log, err := complete(flags)
			if err != nil {
				return err
			}
			return daemon.Render(cmd.Context(), cfg, log, only, cmd.OutOrStdout())
		},
	}
	addFlags(cmd, flags.Sections())
	cmd.Flags().StringVar(&only, "service", "", "only what is there for this Service, `NAMESPACE/NAME`")
	return cmd
}
