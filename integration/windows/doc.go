// Package windows tests portald.exe as a whole, on Linux: the program runs under Wine on the node of a network of
// namespaces, beside a netsh.exe whose simulator adds addresses to that node. Clients, pods and the API server are
// those of other tests. docs/windows.md lists what Wine and the simulator cannot show.
package windows
