// Package winnode makes the node of a topology a Windows node, as far as Wine goes: portald.exe runs on it, beside a
// netsh.exe whose simulator adds addresses to that node. Tests and benchmarks share it; it does not know what they ask.
package winnode
