package winservice

import "time"

// The service's entry in the list of services of Windows.
const (
	displayName = "portald (Kubernetes service proxy)"
	description = "Serves the Services of Kubernetes on this node: their cluster addresses, node ports and " +
		"load-balancer addresses. While it is stopped, pods and clients do not reach Services by this node."
)

// restarts are the pauses before the service is started again after its first, second, and every further failure.
// After restartReset without one, the next is the first again.
func restarts() []time.Duration {
	return []time.Duration{5 * time.Second, 30 * time.Second, time.Minute}
}

const restartReset = time.Hour

// privileges are those that are left to the service. It runs as LocalSystem, since only administrators may give
// addresses to an interface, which Windows decides by the groups of an account; with these two it may not load drivers,
// read other processes, back up files, or act as another user. The first lets it open paths below folders that it may
// not list, as every process; the second lets it share objects with the commands that it starts.
func privileges() []string { return []string{"SeChangeNotifyPrivilege", "SeCreateGlobalPrivilege"} }
