// Package systemd is what a daemon and the systemd that runs it tell each other: see systemd.service(5) of Type=notify,
// and sd_notify(3).
package systemd
