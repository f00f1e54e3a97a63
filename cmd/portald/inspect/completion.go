package inspect

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/portald/portald/platform/printable"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/record"
)

// completionTime bounds a completion's request to the daemon: a shell that waits longer is a nuisance.
const completionTime = 500 * time.Millisecond

// candidates are the words that may complete what was typed. Errors are silence: there is nobody to tell.
type candidates func(cmd *cobra.Command) []string

// complete gives a flag its completion. A flag that takes several values, by commas, completes the last.
func complete(cmd *cobra.Command, flag string, of candidates) {
	err := cmd.RegisterFlagCompletionFunc(flag,
		func(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			before := typed[:strings.LastIndexByte(typed, ',')+1]
			return matching(of(cmd), before, typed), cobra.ShellCompDirectiveNoFileComp
		})
	if err != nil {
		panic(err) // the flag is not there, or has one already
	}
}

// completeArgs completes the arguments of a command by words that are not there yet.
func completeArgs(of candidates) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		words := slices.DeleteFunc(of(cmd), func(word string) bool { return slices.Contains(args, word) })
		return matching(words, "", typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeOne completes the only argument of a command.
func completeOne(of candidates) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completeArgs(of)(cmd, args, typed)
	}
}

// matching returns the words that, behind before, begin with what was typed: sorted, and each once.
func matching(words []string, before, typed string) []cobra.Completion {
	out := []cobra.Completion{}
	for _, word := range words {
		if word = before + word; word != "" && strings.HasPrefix(word, typed) && printable.Text(word) == word {
			out = append(out, word)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func words(words ...string) candidates { return func(*cobra.Command) []string { return words } }

// live returns words that the daemon knows. A command that completes them has the flag --socket.
func live[T any](ask func(context.Context, *adminsocket.Client) ([]T, error), words func(T) []string) candidates {
	return func(cmd *cobra.Command) (all []string) {
		socket, err := cmd.Flags().GetString("socket")
		if err != nil {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), completionTime)
		defer cancel()
		client := adminsocket.NewClient(socket)
		defer client.Close()
		rows, err := ask(ctx, client)
		if err != nil {
			return nil
		}
		for _, row := range rows {
			all = append(all, words(row)...)
		}
		return all
	}
}

// mostIDs bounds how many ids a completion offers.
const mostIDs = 500

func completeIDs() candidates {
	return live(func(ctx context.Context, client *adminsocket.Client) ([]adminsocket.Connection, error) {
		return client.Connections(ctx, adminsocket.ConnectionQuery{Limit: mostIDs})
	}, func(c adminsocket.Connection) []string {
		if c.ID == 0 {
			return nil
		}
		return []string{strconv.FormatUint(c.ID, 10)}
	})
}

// completeServices completes Services, and their ports once a name is complete.
func completeServices() candidates {
	return live(services, func(s adminsocket.Service) []string {
		name, _, _ := strings.Cut(s.Name, ":")
		return []string{name, s.Name}
	})
}

func completeNamespaces() candidates {
	return live(services, func(s adminsocket.Service) []string {
		namespace, _, _ := strings.Cut(s.Name, "/")
		return []string{namespace}
	})
}

func completePods() candidates {
	return live(endpoints, func(e adminsocket.Endpoint) []string { return []string{e.Pod} })
}

func completeEndpoints() candidates {
	return live(endpoints, func(e adminsocket.Endpoint) []string { return []string{e.Address.String()} })
}

// completeDrainable completes endpoints by address and by pod.
func completeDrainable() candidates {
	return live(endpoints, func(e adminsocket.Endpoint) []string { return []string{e.Address.String(), e.Pod} })
}

// outcomes are the words of --outcome.
func outcomes() []string {
	all := []string{"failed"}
	for _, o := range record.Outcomes() {
		all = append(all, string(o))
	}
	return all
}

// filterCompletions are the completions of flags that filter records.
func filterCompletions() map[string]candidates {
	return map[string]candidates{
		"service": completeServices(), "namespace": completeNamespaces(), "pod": completePods(), "from-pod": completePods(),
		"to-pod": completePods(), "endpoint": completeEndpoints(), "outcome": words(outcomes()...),
		"proto": words(protocols()...), "carried-by": words(carriers()...),
	}
}

func services(ctx context.Context, client *adminsocket.Client) ([]adminsocket.Service, error) {
	return client.Services(ctx, adminsocket.ServiceQuery{})
}

func endpoints(ctx context.Context, client *adminsocket.Client) ([]adminsocket.Endpoint, error) {
	return client.Endpoints(ctx, adminsocket.EndpointQuery{})
}
