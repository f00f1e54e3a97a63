// Package fleet tests kubectl-portald: with a real API server, exec by way of kubelets that are simulated, and hundreds
// of daemons that are so too.
package fleet
