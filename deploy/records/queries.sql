-- The questions for all nodes: clickhouse-client --multiquery < queries.sql

-- Who reset connections, in the last hour?
SELECT service, pod, closed_by, close_type, termination, sum(sample) AS connections
FROM portald.records
WHERE time > now() - 3600 AND outcome IN ('client_reset', 'endpoint_reset', 'reset')
GROUP BY service, pod, closed_by, close_type, termination
ORDER BY connections DESC
LIMIT 20;

-- Which pod served client 10.244.3.17 about 03:12?
SELECT time, on_node, service, client, proxy, endpoint, pod, outcome, duration_ms
FROM portald.records
WHERE time BETWEEN toDateTime('2026-11-23 03:11:30', 'UTC') AND toDateTime('2026-11-23 03:12:30', 'UTC')
  AND startsWith(client, '10.244.3.17:')
ORDER BY time;

-- Which endpoint is slow? Connect and first byte, p50 and p99.
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

-- Why does every Nth connection hang? Dials that failed, by endpoint and error.
SELECT service, a.endpoint AS dialled, a.error AS why, count() AS dials, round(avg(a.ms), 1) AS ms, uniq(on_node) AS nodes
FROM portald.records
ARRAY JOIN attempts AS a
WHERE time > now() - 3600 AND a.error != ''
GROUP BY service, dialled, why
ORDER BY dials DESC
LIMIT 20;

-- Who still talked to pod shop/cart-b after 03:00?
SELECT on_node, client, client_pod, time, duration_ms, bytes_from_client
FROM portald.records
WHERE pod = 'shop/cart-b'
  AND toUnixTimestamp(time) + duration_ms / 1000 > toUnixTimestamp(toDateTime('2026-11-23 03:00:00', 'UTC'))
ORDER BY time DESC
LIMIT 50;

-- Who holds most connections? Hours of connections by client address.
SELECT service, arrayStringConcat(arrayPopBack(splitByChar(':', client)), ':') AS address,
       round(sum(duration_ms * sample) / 3600000, 3) AS hours, sum(sample) AS connections
FROM portald.records
WHERE time > now() - 86400
GROUP BY service, address
ORDER BY hours DESC
LIMIT 20;

-- Where does UDP go nowhere? Sessions without a byte back.
SELECT service, endpoint, any(pod) AS of, outcome, sum(sample) AS sessions
FROM portald.records
WHERE time > now() - 3600 AND protocol = 'udp' AND bytes_from_endpoint = 0
GROUP BY service, endpoint, outcome
ORDER BY sessions DESC
LIMIT 20;
