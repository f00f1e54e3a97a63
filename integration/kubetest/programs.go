package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	serviceproxy "k8s.io/kubernetes/cmd/kube-proxy/app"

	"github.com/portald/portald/integration/kubetest/kubelets"
	"github.com/portald/portald/integration/kubetest/plane"
)

// programs are the programs in this binary. Each reads os.Args, of which the first is its name, and returns its exit
// code.
func programs() map[string]func() int {
	return map[string]func() int{
		"up":                    up,
		plane.Etcd:              etcd,
		plane.APIServer:         func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
		plane.ControllerManager: func() int { return cli.Run(controllers.NewControllerManagerCommand()) },
		"kube-proxy":            func() int { return cli.Run(serviceproxy.NewProxyCommand()) },
		"kubectl":               ctl,
		"kubelets":              kubelets.Main,
	}
}

func etcd() int {
	etcdmain.Main(os.Args) // exits by itself when something is wrong
	return 0
}

func ctl() int {
	// says an error in kubectl's words, and exits
	kubectlutil.CheckErr(cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()))
	return 0
}
