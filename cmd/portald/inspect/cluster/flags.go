package cluster

import (
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Flags are client-go's own flags, which kubectl has too: they say which cluster, and as whom.
type Flags struct {
	kubeconfig string
	overrides  clientcmd.ConfigOverrides
}

// AddTo adds the flags that a command does not have. --kubeconfig and --context are in its help, the others are known
// to users of kubectl.
func (f *Flags) AddTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "the kubeconfig `FILE` of the cluster; default: as for kubectl")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ContextOverrideFlags.Namespace.LongName = "" // of Services, where a command has it
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	clientcmd.BindOverrideFlags(&f.overrides, own, names)
	own.VisitAll(func(one *pflag.Flag) {
		if flags.Lookup(one.Name) == nil {
			one.Shorthand, one.Hidden = "", one.Name != "context"
			flags.AddFlag(one)
		}
	})
	flags.Lookup("context").Usage = "the `CONTEXT` of the kubeconfig; default: the current one"
}

// Config is what the flags, or else the environment and the files that kubectl reads, say.
func (f *Flags) Config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &f.overrides).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w; --kubeconfig and --context name one", err)
	}
	return config, nil
}
