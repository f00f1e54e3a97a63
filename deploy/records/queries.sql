-- The questions for all nodes: clickhouse-client --multiquery < queries.sql

-- 1. Who reset connections, in the last hour?
SELECT service, pod, closed_by, close_type, termination, sum(sample) AS connections
FROM portald.records
WHERE time > now() - 3600 AND outcome IN ('client_reset', 'endpoint_reset', 'reset')
GROUP BY service, pod, closed_by, close_type, termination
ORDER BY connections DESC
LIMIT 20;

-- 2. Which pod served client 10.244.3.17 about 03:12?
SELECT time, on_node, service, client, proxy, endpoint, pod, outcome, duration_ms
FROM portald.records
WHERE time BETWEEN toDateTime('2026-11-23 03:11:30', 'UTC') AND toDateTime('2026-11-23 03:12:30', 'UTC')
  AND startsWith(client, '10.244.3.17:')
ORDER BY time;

-- 3. Which endpoint is slow? Connect and first byte, p50 and p99.
SELECT service, endpoint, any(pod) AS of, count() AS connections,
       round(quantile(0.5)(connect_ms), 1) AS connect_p50,
       round(quantile(0.99)(connect_ms), 1) AS connect_p99,
       round(quantile(0.5)(first_byte_ms - connect_ms), 1) AS byte_p50,
       round(quantile(0.99)(first_byte_ms - connect_ms), 1) AS byte_p99
FROM portald.records
WHERE time > now() - 3600 AND first_byte_ms IS NOT NULL
GROUP BY service, endpoint
ORDER BY byte_p99 DESC
LIMIT 20;

-- 4. Why is this pod not used? For each endpoint the connections that it served, the dials that failed, and why. A pod without a
-- row was not dialled: portald explain POD says why.
SELECT service, dialled, sum(ok) AS served, sum(failed) AS failed_dials, groupUniqArrayIf(error, error != '') AS why
FROM (SELECT service, a.endpoint AS dialled, a.error AS error, if(a.error = '', 1, 0) AS ok, if(a.error != '', a.times, 0) AS failed
      FROM portald.records ARRAY JOIN attempts AS a WHERE time > now() - 3600)
GROUP BY service, dialled
ORDER BY served, failed_dials DESC
LIMIT 20;

-- 5. Who still talked to pod shop/cart-b after 03:00?
SELECT on_node, client, client_pod, time, duration_ms, bytes_from_client
FROM portald.records
WHERE pod = 'shop/cart-b'
  AND toUnixTimestamp(time) + duration_ms / 1000 > toUnixTimestamp(toDateTime('2026-11-23 03:00:00', 'UTC'))
ORDER BY time DESC
LIMIT 50;

-- 6. What changed before errors began? Since when each kind of failure has come, and where first; portald changes has the changes.
SELECT min(time) AS began, service, outcome, error, argMin(on_node, time) AS first_node, argMin(pod, time) AS first_pod, sum(sample) AS connections
FROM portald.records
WHERE time > now() - 86400 AND outcome NOT IN ('ok', 'max_age')
GROUP BY service, outcome, error
ORDER BY began
LIMIT 20;

-- 7. Us, the network, or the pod? Who ended connections that failed: SD and SC are the endpoint, CD and CC the client, sC and cD lost
-- segments or timeouts, P, R, D and K this proxy and its limits.
SELECT service, multiIf(termination IN ('SC', 'SD'), 'pod', termination IN ('CC', 'CD'), 'client',
       termination IN ('sC', 'sD', 'cC', 'cD'), 'network, or a host that hangs', 'portald') AS who,
       outcome, groupUniqArray(5)(pod) AS pods, sum(sample) AS connections
FROM portald.records
WHERE time > now() - 3600 AND outcome NOT IN ('ok', 'max_age')
GROUP BY service, who, outcome
ORDER BY connections DESC
LIMIT 20;

-- 8. Uneven, and why? The share of each endpoint in the connections, bytes and time of its Service, and the part kept by affinity.
SELECT service, endpoint, any(pod) AS of, sum(sample) AS connections,
       round(100 * connections / sum(sum(sample)) OVER (PARTITION BY service), 1) AS percent,
       sum((bytes_from_client + bytes_from_endpoint) * sample) AS bytes, round(sum(duration_ms * sample) / 1000, 1) AS seconds,
       round(100 * countIf(affinity = 'hit') / count(), 1) AS percent_by_affinity
FROM portald.records
WHERE time > now() - 3600 AND endpoint != ''
GROUP BY service, endpoint
ORDER BY service, connections DESC
LIMIT 50;

-- 9. Who holds most connections? Hours of connections by client address.
SELECT service, arrayStringConcat(arrayPopBack(splitByChar(':', client)), ':') AS address,
       round(sum(duration_ms * sample) / 3600000, 3) AS hours, sum(sample) AS connections
FROM portald.records
WHERE time > now() - 86400
GROUP BY service, address
ORDER BY hours DESC
LIMIT 20;

-- 10. Why does every Nth connection hang? Dials that failed, by endpoint and error.
SELECT service, a.endpoint AS dialled, a.error AS why, count() AS dials, round(avg(a.ms), 1) AS ms, uniq(on_node) AS nodes
FROM portald.records
ARRAY JOIN attempts AS a
WHERE time > now() - 3600 AND a.error != ''
GROUP BY service, dialled, why
ORDER BY dials DESC
LIMIT 20;

-- 11. Where does UDP go nowhere? Sessions without a byte back.
SELECT service, endpoint, any(pod) AS of, outcome, sum(sample) AS sessions
FROM portald.records
WHERE time > now() - 3600 AND protocol = 'udp' AND bytes_from_endpoint = 0
GROUP BY service, endpoint, outcome
ORDER BY sessions DESC
LIMIT 20;

-- 12. What would happen in kernel mode? Connections that were served because portald dialled again, or waited: each would have failed.
SELECT service, sumIf(sample, length(attempts.error) > 1 OR attempts.times[1] > 1) AS dialled_again, sumIf(sample, replays > 0) AS sent_again,
       sumIf(sample, waited_ms > 0) AS waited, sum(sample) AS served
FROM portald.records
WHERE time > now() - 86400 AND outcome IN ('ok', 'max_age') AND carried_by = 'userspace'
GROUP BY service
ORDER BY dialled_again + sent_again + waited DESC
LIMIT 20;
