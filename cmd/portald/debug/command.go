// Package debug has `kubectl portald debug`: it has a Service carried in userspace mode on all nodes for a while, by
// the annotation portald.io/debug-until, prints the records of all nodes meanwhile, and says at the end what happened.
// The nodes end it by themselves if the command does not.
package debug

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/portald/portald/cmd/portald/inspect"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/connlog"
)

// options are the flags.
type options struct {
	lasts    time.Duration
	outcomes []string
	clients  []string
	yes      bool
	html     string
	output   string
}

// The outputs.
const (
	outputText = "text"
	outputJSON = "json"
)

const long = `Have a Service carried in userspace mode on all nodes for a while, and see each of its connections: its dials and
their times, who closed it and how. The command

  says first what that changes for clients and endpoints, as "explain --as userspace" does, and asks;
  sets the annotation portald.io/debug-until of the Service to the time when it is to end;
  prints the records of all nodes as they come;
  ends with the time of --for, an outcome of --until-outcome, or Ctrl-C, takes the annotation back, and sees that
  each node carries the Service as before;
  prints a summary: outcomes, failures and times by endpoint, who reset whom, and what changed meanwhile.

No connection breaks, neither when it begins nor when it ends. If the command is killed or loses the cluster, each
node ends it by itself at the time of the annotation. The mode of the Service stays as it is.

A Service whose endpoints or clients have to be made for userspace mode (client-address proxy-v2 or transparent,
externalTrafficPolicy Local with source ranges) takes --yes.

The mode changes on all nodes; --on-node is for who wants to see one of them alone.

It takes the right to read and patch the Service, beside that to look into portald: deploy/README.md.`

const example = `  # Ten minutes, or until Ctrl-C.
  kubectl portald debug shop/cart

  # Until an endpoint resets a connection, half an hour at most, with a page for a ticket.
  kubectl portald debug shop/cart --for 30m --until-outcome endpoint_reset --html cart.html

  # Without a question, of one client, as JSON.
  kubectl portald debug shop/cart --for 1m --client shop/web-7d9f8b6c5-x2vqk --yes -o json`

// Command is the command.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "debug NAMESPACE/SERVICE [flags]",
		Short:             "Carry a Service in userspace mode for a while, and see each of its connections",
		Long:              long,
		Example:           example,
		ValidArgsFunction: inspect.CompleteServices,
		Args:              cobra.ExactArgs(1),
	}
	o, f := &options{}, cmd.Flags()
	f.DurationVar(&o.lasts, "for", 10*time.Minute, fmt.Sprintf("the `TIME` that it lasts, up to %.0fh",
		service.MostDebug.Hours()))
	f.StringSliceVar(&o.outcomes, "until-outcome", nil,
		"end with the first connection of this `OUTCOME`, one of docs/records.md; failed: any but ok and max_age")
	f.StringSliceVar(&o.clients, "client", nil,
		"see the connections of this `CLIENT` alone: an address, a CIDR, or a pod as namespace/name")
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	f.StringVar(&o.html, "html", "", "write the summary to this `FILE` too, as a page that needs no other file")
	f.StringVarP(&o.output, "output", "o", outputText,
		"`text`: records and the summary for people; json: the summary alone")
	dial := inspect.AddSocket(cmd)
	dial.OnlyReads() // the Service is changed, through the API server
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := newSession(cmd, o, args[0])
		if err != nil {
			return err
		}
		if err := s.reach(cmd.Context(), dial); err != nil {
			return inspect.Failed(cmd.Context(), err)
		}
		defer s.leave()
		return inspect.Failed(cmd.Context(), s.run(cmd.Context()))
	}
	return inspect.Changing(cmd)
}

// newSession reads the command line.
func newSession(cmd *cobra.Command, o *options, what string) (*session, error) {
	namespace, name, ok := strings.Cut(what, "/")
	if !ok || namespace == "" || name == "" || strings.ContainsAny(what, "*:") {
		return nil, inspect.Usage("debug %q: must be NAMESPACE/SERVICE, without a port: a mode is of all ports", what)
	}
	switch {
	case o.lasts < time.Second || o.lasts > service.MostDebug:
		return nil, inspect.Usage("--for %s: must be 1s to %.0fh", o.lasts, service.MostDebug.Hours())
	case o.output != outputText && o.output != outputJSON:
		return nil, inspect.Usage("-o %q: must be text or json", o.output)
	}
	s := &session{
		options: *o, name: service.Name{Namespace: namespace, Name: name}, in: cmd.InOrStdin(), out: cmd.OutOrStdout(),
		errOut: cmd.ErrOrStderr(), interactive: inspect.OnTerminal(cmd.InOrStdin()),
	}
	_, err := s.shown(time.Now())
	for _, o := range s.outcomes {
		err = errors.Join(err, s.awaited.Add(false, "outcome", o, time.Now()))
	}
	if err != nil {
		return nil, inspect.Usage("debug: %w", err)
	}
	return s, nil
}

// shown is the filter of records that flags choose, of connections that were open at a time or later.
func (s *session) shown(since time.Time) (f connlog.Filter, err error) {
	add := func(key, value string) { err = errors.Join(err, f.Add(false, key, value, time.Now())) }
	add("service", s.name.String())
	add("since", since.Format(time.RFC3339Nano))
	for _, c := range s.clients {
		key := "from-pod"
		if strings.Trim(c, "0123456789abcdefABCDEF.:/") == "" {
			key = "from-ip"
		}
		add(key, c)
	}
	return f, err
}

// reach finds the daemons and the API server, and opens the file of the summary before anything is changed.
func (s *session) reach(ctx context.Context, dial *inspect.Dial) error {
	nodes, err := dial.Nodes(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", adminsocket.ErrNotReachable, err)
	}
	for _, n := range nodes {
		s.nodes = append(s.nodes, &node{Name: n.Name, client: n.Client})
	}
	services, err := dial.Services()
	if err != nil {
		return err
	}
	s.services = services
	if s.html != "" {
		if s.page, err = os.OpenFile(s.html, os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
			return fmt.Errorf("--html: %w", err)
		}
	}
	return nil
}

// leave removes a file that was made for a summary that there is not.
func (s *session) leave() {
	if s.page == nil {
		return
	}
	if info, err := s.page.Stat(); err == nil && info.Size() == 0 {
		_ = os.Remove(s.html) // it is in nobody's way
	}
	s.page.Close()
}

// isAwaited tells whether a record ends the session.
func (s *session) isAwaited(l *connlog.Line) bool { return len(s.outcomes) > 0 && s.awaited.Match(l) }
