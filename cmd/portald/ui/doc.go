// Package ui is portald ui: it serves the page of all nodes on loopback, for who knows its token, and opens it in a
// browser.
package ui
