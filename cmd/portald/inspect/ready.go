package inspect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/portald/portald/proxy/adminsocket"
)

func readyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ready [flags]",
		Short: "Tell whether portald serves this node, for the startup probe of its pod",
		Long: `Print one line that says whether the portald that answers at the socket has applied all Services once, or why
it is not ready. If PORTALD_INSTANCE is set in the environment, that portald must have been started with the
same value.

While a rollout replaces the pod of a node, the old and the new pod share the node's ports and the socket's
folder, and the portald that serves the node answers for both. The manifests set PORTALD_INSTANCE to the UID
of the pod, so that a pod becomes ready only when its own portald serves.

Exit code 0: ready; 1: not ready, or no portald answers; 2: wrong usage.`,
		Example: `  # As the startup probe of a container.
  startupProbe: {exec: {command: [portald, ready]}, periodSeconds: 2, failureThreshold: 900}

  # After a restart of the service on a node.
  until portald ready; do sleep 1; done`,
		Args: flagsOnly,
	}
	dial := AddSocket(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		client := dial.Client()
		defer client.Close()
		if err := ready(cmd.Context(), client, dial.socket, os.Getenv(adminsocket.InstanceVariable)); err != nil {
			return fmt.Errorf("not ready: %w", err)
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "ready")
		return err
	}
	return cmd
}

// readyTime is how long the daemon has for its answer: less than the probe has for this command.
const readyTime = 3 * time.Second

// ready returns why the daemon at a socket is not ready, or not the instance that is meant; empty: any.
func ready(ctx context.Context, client *adminsocket.Client, socket, instance string) error {
	within, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	info, err := client.Info(within)
	switch {
	case errors.Is(err, adminsocket.ErrNotReachable):
		return fmt.Errorf("no daemon answers at %s", socket)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the daemon at %s does not answer within %s", socket, readyTime)
	case err != nil:
		return err
	case instance != "" && info.Instance != instance:
		return fmt.Errorf("another portald still serves this node: %s", describe(&info))
	case !info.Ready:
		return errors.New("its first sync is not done")
	}
	return nil
}

// describe tells a daemon from another.
func describe(info *adminsocket.Info) string {
	what := "version " + Text(info.Version)
	if info.Instance != "" {
		what += ", instance " + Text(info.Instance)
	}
	return what + ", since " + info.Started.UTC().Format(time.RFC3339)
}
