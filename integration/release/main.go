// Command release makes what people install: archives and packages of each system, and NOTICE, which tells what is
// built in. The same commit gives the same files, byte for byte, in any folder.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// target is a system that there is a release for.
type target struct{ os, arch string }

var targets = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"windows", "amd64"}}

// plugins are the systems of people who use kubectl.
var plugins = append(slices.Clone(targets), target{"darwin", "amd64"}, target{"darwin", "arm64"})

func (t target) String() string { return t.os + "/" + t.arch }

// environment is the environment of the go command: variables of a shell must not change the result.
func (t target) environment() []string {
	return append(os.Environ(), "GOOS="+t.os, "GOARCH="+t.arch, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off",
		"GOEXPERIMENT=",
		"GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off")
}

const usage = "release notice -classifier PROGRAM [-check], or " +
	"release pack -nfpm PROGRAM -cyclonedx PROGRAM [-to FOLDER] [-here]"

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	switch args[0] {
	case "notice":
		classifier := flags.String("classifier", "", "identify_license")
		check := flags.Bool("check", false, "say whether NOTICE is as it would be written")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return writeNotice(ctx, *classifier, *check)
	case "pack":
		p := &packer{targets: targets, plugins: plugins}
		here := flags.Bool("here", false, "only for the system that this runs on, as a check of the rest")
		flags.StringVar(&p.nfpm, "nfpm", "", "nfpm")
		flags.StringVar(&p.cyclonedx, "cyclonedx", "", "cyclonedx-gomod")
		flags.StringVar(&p.to, "to", "dist", "the folder, which is made anew")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if *here {
			p.targets = []target{{runtime.GOOS, runtime.GOARCH}}
			p.plugins = p.targets
		}
		return p.run(ctx)
	}
	return errors.New(usage)
}
