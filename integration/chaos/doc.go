// Package chaos lets portald meet a random schedule of faults, several at a time, while clients compare every byte.
// Each fault lists the failures that it may cause; no other may happen.
package chaos
