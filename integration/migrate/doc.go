// Package migrate replaces kube-proxy by portald on a node and goes back, by the steps of docs/install.md and under
// load: a kube-proxy of the release that KUBETEST has, in each of its modes, and a portald in each of its own. No
// connection fails, and at the end the node is as one on which portald never ran. The script run beside it does this
// with a whole cluster.
package migrate
