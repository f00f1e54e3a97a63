package config

import (
	"net/url"
	"strings"
	"time"

	"github.com/portald/portald/proxy/connlog"
)

func connectionLogSettings() []setting {
	return []setting{
		{portald, "connectionLog.path", "connection-log", atStart, nil,
			"write one record for each connection and UDP session to this `FILE`, - for standard error; default: none"},
		{portald, "connectionLog.format", "connection-log-format", atStart, oneOf(connlog.FormatNames()...),
			"`FORMAT` of the records: json, text, logfmt or columns"},
		{portald, "connectionLog.events", "connection-log-events", live, oneOf(eventNames()...),
			"`EVENTS` of a connection that are logged, comma-separated: start, attempt (each dial), periodic (while it is " +
				"open), end"},
		{portald, "connectionLog.period", "connection-log-period", live, atLeast(time.Second),
			"`TIME` between two records of an open connection, with the event periodic"},
		{portald, "connectionLog.maxSize", "connection-log-max-size", atStart, optional(size),
			"`SIZE` at which the file is renamed and a new one started, such as 100Mi; 0: no limit, other programs may " +
				"rename it"},
		{portald, "connectionLog.maxAge", "connection-log-max-age", atStart, notNegative,
			"`TIME` after which the file is renamed and a new one started; 0: never"},
		{portald, "connectionLog.maxFiles", "connection-log-max-files", atStart, notNegative,
			"`NUMBER` of renamed files that are kept; 0: all"},
		{portald, "connectionLog.compress", "connection-log-compress", atStart, nil, "compress renamed files with gzip"},
		{portald, "connectionLog.otlp.endpoint", "connection-log-otlp-endpoint", atStart, optional(httpURL),
			"export the records to this OpenTelemetry collector, by OTLP over HTTP at `URL`, such as " +
				"https://collector:4318; default: the environment variable OTEL_EXPORTER_OTLP_ENDPOINT, if set"},
		{portald, "connectionLog.otlp.headers", "connection-log-otlp-headers", atStart, header,
			"`HEADERS` of these requests, comma-separated, each NAME=VALUE; the environment variable " +
				"OTEL_EXPORTER_OTLP_HEADERS keeps secrets out of the configuration"},
		{portald, "connectionLog.otlp.caFile", "connection-log-otlp-ca-file", atStart, nil,
			"`FILE` with the CA certificates that sign the collector's certificate; default: the system's"},
		{portald, "connectionLog.otlp.certFile", "connection-log-otlp-cert-file", atStart, nil,
			"`FILE` with the client certificate for the collector"},
		{portald, "connectionLog.otlp.keyFile", "connection-log-otlp-key-file", atStart, nil, "`FILE` with its private key"},
		{portald, "connectionLog.otlp.changes", "connection-log-otlp-changes", atStart, nil,
			"export what changes on this node too, as portald changes lists it"},
	}
}

func eventNames() (out []string) {
	for _, e := range connlog.AllEvents() {
		out = append(out, string(e))
	}
	return out
}

// size is the rule of sizes.
func size(value any) string {
	if text(value) != "0" && sizeOf(text(value)) < 1<<20 {
		return "must be a size of 1Mi or more, such as 100Mi, or 0 for none"
	}
	return ""
}

func httpURL(value any) string {
	u, err := url.Parse(text(value))
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return "must be a URL, as in https://collector:4318"
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return "must be a URL without user and query, which are not sent: write a header, such as Authorization=Basic ..."
	}
	return ""
}

func header(value any) string {
	if name, _, ok := strings.Cut(text(value), "="); !ok || name == "" {
		return "must be NAME=VALUE"
	}
	return ""
}
