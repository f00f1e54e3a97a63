package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/portald/portald/platform/doctor"
	"github.com/portald/portald/platform/printable"
	"github.com/portald/portald/proxy/adminsocket"
)

func doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor [flags]",
		Short: "Check this node for problems: rules, settings, limits, routes, ports",
		Long: `Check this node for problems: rules of other programs before portald's, leftovers of other service proxies and
modes, kernel settings, the conntrack table, limits that are nearly reached, routes to Services, MTUs, ports
that other programs use. Each finding says what was seen, why it matters and what to do. The command changes
nothing and takes less than three seconds. It asks a running portald what it serves. Without a running portald
or without root, it checks less, and lists what it could not check.

Exit code 0: no errors (there may be warnings); 1: errors; 2: wrong usage.`,
		Example: `  # Problems only.
  portald doctor

  # All checks, including those that passed.
  portald doctor --verbose

  # The names of the checks that found an error, for scripts.
  portald doctor -o json | jq -r '.findings[] | select(.severity == "error") | .check'`,
		Args: flagsOnly,
	}
	style := doctor.Style{}
	output := &choice{word: outputText, among: []string{outputText, outputJSON}}
	addChoice(cmd, output, "output", "o", "a text for people, or json")
	cmd.Flags().BoolVarP(&style.Verbose, "verbose", "v", false, "also list the checks that passed")
	dial := AddSocket(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		style.Color, style.ASCII = colored(cmd.OutOrStdout()), !unicodeLocale(os.Getenv)
		if dial.many() {
			return Failed(cmd.Context(), doctorNodes(cmd, dial, output.word, style))
		}
		client := dial.Client()
		defer client.Close()
		report := doctor.Examine(doctor.Collect(cmd.Context(), doctorSource(client)))
		return printReport(cmd.OutOrStdout(), report, output.word, style)
	}
	return cmd
}

// printReport prints a report. With findings that are errors it returns an error.
func printReport(w io.Writer, r *doctor.Report, output string, style doctor.Style) error {
	print := func() error { return r.Text(w, style) }
	if output == outputJSON {
		print = func() error {
			text, err := json.MarshalIndent(r, "", "  ")
			if err == nil {
				_, err = fmt.Fprintf(w, "%s\n", printable.JSON(text))
			}
			return err
		}
	}
	if err := print(); err != nil {
		return err
	}
	if n := r.Count(doctor.Error); n > 0 {
		return fmt.Errorf("doctor: errors found: %d", n)
	}
	return nil
}

// unicodeLocale tells whether the locale is one of UTF-8.
func unicodeLocale(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := getenv(name); value != "" {
			return strings.Contains(strings.ToUpper(strings.ReplaceAll(value, "-", "")), "UTF8")
		}
	}
	return false
}

// doctorSource reads from a running portald what it is and what it serves.
func doctorSource(client *adminsocket.Client) doctor.Source {
	return doctor.Source{
		Daemon: func(ctx context.Context) (doctor.Daemon, error) {
			i, err := client.Info(ctx)
			return doctor.Daemon{Version: i.Version, Node: i.Node, PID: i.PID, Mode: i.Mode, Writer: i.Writer, Ready: i.Ready,
				Started: i.Started, Alongside: i.ServiceProxyName != "", Disturbed: doctor.Disturbed(i.Disturbances)}, denied(err)
		},
		Services: func(ctx context.Context) (doctor.Services, error) {
			served, err := client.Services(ctx, adminsocket.ServiceQuery{})
			if err != nil {
				return nil, denied(err)
			}
			return servicesForDoctor(ctx, client, served)
		},
	}
}

// modeKernel is the mode of service ports that the kernel carries.
const modeKernel = "kernel"

// maxQueriedPorts bounds the service ports of kernel mode whose endpoints are queried: a few show which rules their
// packets meet.
const maxQueriedPorts = 20

func servicesForDoctor(
	ctx context.Context, client *adminsocket.Client, served []adminsocket.Service,
) (all doctor.Services, err error) {
	query := adminsocket.EndpointQuery{States: []string{"used"}}
	for _, s := range served {
		all = append(all, serviceForDoctor(s))
		if s.Mode == modeKernel && len(query.Services) < maxQueriedPorts {
			query.Services = append(query.Services, s.Name)
		}
	}
	if len(query.Services) == 0 {
		return all, nil
	}
	endpoints, err := client.Endpoints(ctx, query)
	for _, e := range endpoints {
		of := func(s doctor.Service) bool { return s.Name == e.Service && s.Protocol == e.Protocol }
		if i := slices.IndexFunc(all, of); i >= 0 {
			all[i].Endpoints = append(all[i].Endpoints, e.Address)
		}
	}
	return all, err
}

// denied translates the error of a client without rights.
func denied(err error) error {
	if errors.Is(err, adminsocket.ErrPermission) {
		return fmt.Errorf("%w: %w", doctor.ErrDenied, err)
	}
	return err
}

func serviceForDoctor(s adminsocket.Service) doctor.Service {
	out := doctor.Service{Name: s.Name, Protocol: s.Protocol, Kernel: s.Mode == modeKernel, Problem: s.Problem}
	for _, fe := range s.Frontends {
		out.Frontends = append(out.Frontends,
			doctor.Frontend{Address: fe.Address, Kind: fe.Kind, ProxyPort: fe.Port, Holder: fe.Holder})
	}
	return out
}
