// Package kubelets answers exec for the nodes of a control plane, as their kubelets would: in the place of a program in
// a container it connects to the socket of a daemon, or runs a program of this host.
//
//	kubetest kubelets --listen 127.0.0.1:10250 --sockets DIR [--portald PATH]
//
// Commands of portald in a pod are run with the --socket DIR/POD.sock. Without a program, "portald connect" is a
// connection to that: hundreds of processes take gigabytes.
package kubelets

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// Run serves until it fails or the process ends, and prints "ready" before.
func Run(args []string) error {
	flags := flag.NewFlagSet("kubelets", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:0", "the address of all kubelets")
	k := &kubelets{}
	flags.StringVar(&k.sockets, "sockets", ".", "the folder with POD.sock for each pod of portald")
	flags.StringVar(&k.portald, "portald", "", "the program that runs commands")
	if err := flags.Parse(args); err != nil {
		return err
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("kubelets", nil, nil)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	l, err := tls.Listen("tcp", *listen, &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", k.exec)
	mux.HandleFunc("/exec/{namespace}/{pod}/{uid}/{container}", k.exec)
	return (&http.Server{Handler: mux}).Serve(l)
}

type kubelets struct{ sockets, portald string }

func (k *kubelets) exec(w http.ResponseWriter, r *http.Request) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeExec(w, r, k, r.PathValue("pod"), r.PathValue("uid"), r.PathValue("container"),
		r.URL.Query()["command"], options, time.Hour, 30*time.Second, remotecommand.SupportedStreamingProtocols)
}

// ExecInContainer implements remotecommand.Executor.
func (k *kubelets) ExecInContainer(ctx context.Context, pod, _, _ string, command []string, in io.Reader,
	out, errOut io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	socket := filepath.Join(k.sockets, pod+".sock")
	if len(command) < 2 || command[0] != "portald" {
		return fmt.Errorf("this container has portald alone, not %q", strings.Join(command, " "))
	}
	if k.portald == "" {
		if command[1] == "connect" {
			return connect(socket, in, out, errOut)
		}
		return errors.New("this container has no program")
	}
	run := exec.CommandContext(ctx, k.portald, append(command[1:], "--socket", socket)...)
	run.Stdin, run.Stdout, run.Stderr = in, out, errOut
	return exitStatus(run.Run())
}

// connect is what portald connect does.
func connect(socket string, in io.Reader, out, errOut io.Writer) error {
	daemon, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Fprintln(errOut, "portald: connect to the daemon at", socket+":", err)
		return exitStatus(&exec.ExitError{})
	}
	defer daemon.Close()
	if _, err := fmt.Fprintln(out, "portald: connected"); err != nil {
		return err
	}
	ended := make(chan struct{}, 2)
	go func() { io.Copy(daemon, in); ended <- struct{}{} }()
	go func() { io.Copy(out, daemon); ended <- struct{}{} }()
	<-ended
	return nil
}

// exitStatus makes of the end of a program what the caller of exec is told.
func exitStatus(err error) error {
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		code := 3
		if failed.ProcessState != nil {
			code = failed.ExitCode()
		}
		return utilexec.CodeExitError{Err: err, Code: code}
	}
	return err
}

// Main is the program.
func Main() int {
	if err := Run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "kubelets:", err)
		return 1
	}
	return 0
}
