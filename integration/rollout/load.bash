# shellcheck shell=bash
# Pods on every node that load a Service, and count what goes wrong: for run and ../migrate/run, which source it.
#
#   OWN     the namespace of these pods: load_start makes it, load_clean deletes it
#   IMAGE   of these pods: any with sh, cat and sleep
#   DNS     the address of the cluster's DNS
#   WORK    a folder for files

own() { kubectl -n "$OWN" "$@"; }

workload() { # NAME [FIELDS of its pods] [FIELDS of its container]
	cat <<-Y
		---
		apiVersion: apps/v1
		kind: DaemonSet
		metadata: {name: $1}
		spec:
		  selector: {matchLabels: {app: $1}}
		  template:
		    metadata: {labels: {app: $1}}
		    spec: {terminationGracePeriodSeconds: 1, tolerations: [{operator: Exists}], ${2:+$2, }containers: [{name: $1,
		      image: "$IMAGE", imagePullPolicy: IfNotPresent, command: [sleep, "1000000"]${3:+, $3}}]}
	Y
}

pods_of() { # APP: name, node and the node's address of each pod
	own get pods -l "app=$1" -o jsonpath='{range .items[*]}{.metadata.name} {.spec.nodeName} {.status.hostIP}{"\n"}{end}'
}

host() { if [[ $1 == *:* ]]; then echo "[$1]"; else echo "$1"; fi; } # as it stands before a port

# load_start [OPTION...] takes options of rollout load, and returns when all loads run.
load_start() {
	local here arch pod node next i clusterip tcp udp clients
	here=$(dirname "${BASH_SOURCE[0]}")
	arch=$(kubectl get nodes -o jsonpath='{.items[0].status.nodeInfo.architecture}')
	(cd "$here" && CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -trimpath -ldflags "-s -w" -o "$WORK/rollout" .)
	kubectl wait --for=delete "namespace/$OWN" --timeout=60s >/dev/null # that of the last run
	kubectl create namespace "$OWN" >/dev/null
	{
		workload server
		workload client
		cat <<-Y
			---
			apiVersion: v1
			kind: Service
			metadata: {name: echo}
			spec:
			  type: NodePort
			  selector: {app: server}
			  ports: [{name: tcp, port: 9000}, {name: udp, port: 9000, protocol: UDP}]
		Y
	} | own apply -f - >/dev/null
	own rollout status daemonset/server --timeout=120s >/dev/null
	own rollout status daemonset/client --timeout=120s >/dev/null
	while read -r pod _; do
		load_put "$pod"
		own exec "$pod" -- sh -c '/tmp/rollout serve 9000 >/tmp/log 2>&1 & sleep 0.2'
	done < <(pods_of server)
	clusterip=$(host "$(own get service echo -o jsonpath='{.spec.clusterIP}')")
	tcp=$(own get service echo -o jsonpath='{.spec.ports[0].nodePort}')
	udp=$(own get service echo -o jsonpath='{.spec.ports[1].nodePort}')
	mapfile -t clients < <(pods_of client)
	mkfifo "$WORK/stdin"
	loads=()
	exec 9<>"$WORK/stdin"
	for i in "${!clients[@]}"; do
		read -r pod node _ <<<"${clients[i]}"
		read -r _ _ next <<<"${clients[(i + 1) % ${#clients[@]}]}"
		next=$(host "$next")
		load_put "$pod"
		own exec -i "$pod" -- /tmp/rollout load "$@" "ClusterIP=tcp:$clusterip:9000" "NodePort=tcp:$next:$tcp" \
			"ClusterIP=udp:$clusterip:9000" "NodePort=udp:$next:$udp" "DNS=dns:$(host "$DNS"):53" \
			<"$WORK/stdin" >"$WORK/load-$node" 2>&1 9>&- &
		loads+=($!)
	done
	sleep 5
}

load_put() { own exec -i "$1" -- sh -c 'cat >/tmp/rollout && chmod +x /tmp/rollout' <"$WORK/rollout"; } # POD

# load_finish ends the loads, prints what each has counted, and fails if any has counted a failure.
load_finish() {
	local job file failed=0
	exec 9>&-
	for job in "${loads[@]}"; do wait "$job" || failed=1; done
	for file in "$WORK"/load-*; do
		echo "from a pod on ${file##*/load-}:"
		sed 's/^/  /' "$file"
	done
	return $failed
}

load_clean() { kubectl delete namespace "$OWN" --ignore-not-found --wait=false >/dev/null; }
