-- Connection records of portald: docs/records.md has the meaning of each field.
CREATE DATABASE IF NOT EXISTS portald;

CREATE TABLE IF NOT EXISTS portald.records
(
    time                DateTime64(6, 'UTC'),
    on_node             LowCardinality(String), -- whose portald wrote it
    id                  UInt64,
    carried_by          LowCardinality(String),
    service             LowCardinality(String),
    protocol            LowCardinality(String),
    client              String,
    client_pod          String,
    client_node         LowCardinality(String),
    original_dst        String,
    portal              LowCardinality(String),
    proxy               String,
    endpoint            String,
    pod                 String,
    node                LowCardinality(String),
    zone                LowCardinality(String),
    attempts            Nested(endpoint String, proxy String, ms Float64, error String, times UInt32),
    replays             UInt32,
    affinity            LowCardinality(String),
    bytes_from_client   UInt64,
    bytes_from_endpoint UInt64,
    connect_ms          Nullable(Float64),
    first_byte_ms       Nullable(Float64),
    duration_ms         Float64,
    waited_ms           Float64,
    client_blocked_ms   Float64,
    endpoint_blocked_ms Float64,
    closed_by           LowCardinality(String),
    close_type          LowCardinality(String),
    outcome             LowCardinality(String),
    error               String,
    errno               LowCardinality(String),
    termination         LowCardinality(String),
    flags               LowCardinality(String),
    sample              UInt32 DEFAULT 1
)
ENGINE = MergeTree
PARTITION BY toDate(time)
ORDER BY (service, time)
TTL toDateTime(time) + INTERVAL 14 DAY;
