package winservice

import (
	"slices"
	"strings"
)

// Severity is the type of an event. The values are ReportEvent's.
type Severity uint16

// The severities.
const (
	Error       Severity = 1
	Warning     Severity = 2
	Information Severity = 4
)

// String is the word of the Event Viewer.
func (s Severity) String() string {
	switch s {
	case Error:
		return "Error"
	case Warning:
		return "Warning"
	}
	return "Information"
}

// Event is a kind of message in the event log. IDs are from 1 to 1000, the messages that EventCreate.exe has, and are
// never given to another event.
type Event struct {
	ID       uint32
	Severity Severity
	Lines    []string // beginnings of the lines of the daemon's log that are this event; none: see Severity
	Means    string
	Do       string // what an operator does then
}

// The events that the service itself writes.
const (
	eventCrashed = 112
	eventFailed  = 113
	eventLimited = 190
	eventWarning = 200
	eventError   = 300
)

const nothing = "nothing"

// Events are all that portald writes, by ID.
func Events() []Event {
	return slices.Concat(lifeEvents(), configurationEvents(), trafficEvents(), otherEvents())
}

func lifeEvents() []Event {
	return []Event{
		{100, Information, []string{"portald started as a service"}, "The service starts", nothing},
		{101, Information, []string{"Ready: all service ports are served"},
			"Every Service that the daemon knows is served for the first time since the start", nothing},
		{102, Information, []string{"portald stops: "}, "The service was asked to stop, or Windows shuts down", nothing},
		{103, Information, []string{"portald has stopped"},
			"All connections have ended, and the addresses of Services are removed", nothing},
		{104, Warning, []string{"Drain timeout: closed "},
			"The service stops, and connections were still open after drainTimeout: they are cut",
			"raise drainTimeout if they need longer"},
		{105, Warning, []string{"Ready: service ports are served, but"},
			"The daemon serves for the first time since the start, but not all that Services ask for: the event says what",
			"do what the events before it say"},
		{eventCrashed, Error, nil, "The previous run ended with a panic, whose first lines are here",
			"report it with the file that the event names"},
		{eventFailed, Error, []string{"portald ends with an error"},
			"The service could not start, or exited: the service control manager restarts it",
			"do what the event says; portald service start shows the reason too"},
	}
}

func configurationEvents() []Event {
	return []Event{
		{120, Information, []string{"Configuration file changed: applied"},
			"The configuration file changed, and settings that need no restart are in force", nothing},
		{121, Error, []string{"Configuration file refused"},
			"The changed configuration file has mistakes, which the log names: the previous settings stay in force",
			"correct the file; portald config check names the mistakes too"},
		{122, Warning, []string{"Cannot read the configuration file"},
			"The configuration file is missing or locked: the previous settings stay in force", "put the file back"},
	}
}

func trafficEvents() []Event {
	return []Event{
		{130, Error, []string{"Cannot serve a frontend"},
			"An address or port of a Service is not available on this node: it is in use, excluded, or refused " +
				"by Windows. It is retried; all others are served",
			"look for the program that has the port (netstat -abno), or for an excluded range (netsh interface ipv4 show " +
				"excludedportrange tcp)"},
		{131, Information, []string{"Frontend served again"}, "The problem of event 130 is solved", nothing},
		{132, Error, []string{"Sync failed"},
			"No addresses could be added or removed, for example without administrator rights or without the " +
				"interface: everything is retried",
			"do what the event says; until then /healthz fails"},
		{133, Error, []string{"Cannot serve the service port as configured"},
			"A Service needs something that this node does not support: its clients are refused, all others are " +
				"served",
			"change the Service as the event says"},
		{134, Information, []string{"Service port served again"}, "The problem of event 133 is solved", nothing},
		{135, Warning, []string{"Two Services claim one address"}, "Two Services claim an address: the older " +
			"one keeps it",
			"give the other one another address"},
		{136, Warning, []string{"No firewall rule"},
			"Windows' firewall may drop what pods and other hosts send to Services on this node",
			"run portald service install --firewall, or add the rule with the command in the event"},
		{140, Warning, []string{"API server"}, "The API server does not answer: the known state stays in force",
			"check the API server, and the network path to it"},
		{141, Error, []string{"API server"}, "The API server refuses the daemon: the known state stays in force",
			"check the kubeconfig and the ClusterRole"},
		{142, Information, []string{"API server"}, "The API server has listed Services, or answers again", nothing},
		{143, Error, []string{"portald hangs"}, "A part of the daemon hangs, and /livez fails",
			"restart the service, and report it with the log"},
	}
}

func otherEvents() []Event {
	return []Event{
		{eventLimited, Warning, nil, "Some events were left out of the event log: at most ten of each ID are " +
			"written in ten minutes",
			"read the daemon's log, which has all events"},
		{eventWarning, Warning, nil, "Any other warning of the daemon's log", "do what the event says"},
		{eventError, Error, nil, "Any other error of the daemon's log", "do what the event says"},
	}
}

// eventOf is the event of a line of the log, 0 if it is none: lines of no event of their own are events if they are
// warnings or errors.
func eventOf(severity Severity, line string) uint32 {
	for _, e := range Events() {
		begins := func(s string) bool { return strings.HasPrefix(line, s) }
		if e.Severity == severity && slices.ContainsFunc(e.Lines, begins) {
			return e.ID
		}
	}
	switch severity {
	case Error:
		return eventError
	case Warning:
		return eventWarning
	}
	return 0
}

// severityOf is the severity of an ID.
func severityOf(id uint32) Severity {
	all := Events()
	return all[slices.IndexFunc(all, func(e Event) bool { return e.ID == id })].Severity
}
