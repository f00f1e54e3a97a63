package platform

import "os"

// NetworkNamespace is the name that the kernel gives to the network namespace of this process.
func NetworkNamespace() string {
	name, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		return "an unknown network namespace"
	}
	return name
}
