package main

const long = `portald is a Kubernetes service proxy that you can see into.

It reads Services and EndpointSlices, opens a listener for each service port, and leads the traffic of ClusterIPs,
NodePorts, external and load-balancer addresses there with iptables. For each connection it picks an endpoint in turn
(or by ClientIP affinity), dials it, tries another when that fails, carries the bytes both ways, and writes one record:
who connected, to what, where it went, what was tried, how much was carried, and who ended it how.

It needs the capabilities NET_ADMIN and NET_RAW, and the commands iptables and iptables-restore (ip6tables too, where
IPv6 is to be served). SIGTERM takes the portals away, lets open connections end for the drain timeout, and cuts the
rest. After a crash, the next start removes what was left behind; "portald cleanup" does so without a start.`

const example = `  # Serve what a cluster has, from a dump of it, and show each connection.
  kubectl get services,endpointslices,nodes -A -o yaml > cluster.yaml
  portald --manifests cluster.yaml --connection-log -

  # Serve a folder that is followed as it changes; records as JSON for a log collector.
  portald --manifests /etc/portald/manifests --connection-log /var/log/portald.json --connection-log-format json

  # Remove all of portald's rules.
  portald cleanup`

const helpTemplate = `{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}

{{end}}{{if or .Runnable .HasSubCommands}}{{.UsageString}}{{end}}`
