package doctor

import (
	"fmt"
	"slices"
	"strings"
)

func windowsChecks() []Check {
	return []Check{{
		Name: "windows-elevated", Severity: Note, System: windows, What: "the doctor runs without administrator " +
			"rights",
		Why: "portald's pipe answers only administrators, so most checks are impossible.",
		Do:  "run it in an elevated prompt", run: runsElevated,
	}, {
		Name: "windows-service", Severity: Warning, System: windows, What: "the service portald is missing or " +
			"not running",
		Why: "Services are not served after Windows next starts.",
		Do:  "portald service install; portald service start", run: serviceRuns,
	}, {
		Name: "windows-excluded-ports", Severity: Error, System: windows,
		What: "Windows reserves ports that Services need",
		Why: "portald listens on the ports of the Services themselves; Windows refuses ports in its excluded " +
			"ranges " +
			"(Hyper-V and WinNAT reserve some at each start).",
		Do: "netsh interface ipv4 show excludedportrange protocol=tcp; net stop winnat, portald service start, net " +
			"start winnat",
		run: portsAreNotExcluded,
	}}
}

func runsElevated(f *Facts) result {
	switch {
	case f.Elevated.Err != nil:
		return unknown(f.Elevated.Err)
	case !f.Elevated.Value:
		return wrong("", "this process is not elevated")
	}
	return well("this process is elevated")
}

func serviceRuns(f *Facts) result {
	switch state := f.Service.Value; {
	case f.Service.Err != nil:
		return unknown(f.Service.Err)
	case state != "Running":
		return wrong("", "the service is %s", state)
	}
	return well("the service runs")
}

func portsAreNotExcluded(f *Facts) result {
	all, err := f.services()
	switch {
	case err != nil:
		return unknown(err)
	case f.Excluded.Err != nil:
		return unknown(f.Excluded.Err)
	}
	out := result{ok: fmt.Sprintf("no port of a Service is in the %d ranges that Windows keeps", len(f.Excluded.Value))}
	for _, s := range all {
		for _, fe := range s.Frontends {
			kept := func(r ExcludedPorts) bool { return r.Protocol == s.Protocol && r.Contains(fe.Address.Port()) }
			if slices.ContainsFunc(f.Excluded.Value, kept) {
				out.problems = append(out.problems, problem{seen: fmt.Sprintf("%s/%s of %s", fe.Address, s.Protocol, s.Name)})
			}
		}
	}
	return out.firstOf("frontends")
}

// parseExcluded reads the ranges that netsh lists: lines with the first and the last port. Its words are translated.
func parseExcluded(text, protocol string) (out []ExcludedPorts) {
	for line := range strings.Lines(text) {
		s := ExcludedPorts{Protocol: protocol}
		if n, _ := fmt.Sscan(line, &s.First, &s.Last); n == 2 && s.First <= s.Last {
			out = append(out, s)
		}
	}
	return out
}
