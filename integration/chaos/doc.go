// Package chaos lets portald meet a random schedule of faults, several at a time, while clients compare every byte.
// What a fault may cost is written down with it; nothing else may happen.
package chaos
