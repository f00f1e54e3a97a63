// Package browser has tests look at a page in a headless Chromium, on a host of their network.
package browser
