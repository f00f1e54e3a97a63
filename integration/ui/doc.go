// Package ui tests portald ui: a real daemon with real failures, its page in a headless browser.
package ui
