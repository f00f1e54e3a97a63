// winerun runs a program that Go built for windows/amd64, by Wine. It is a wrapper for go test and go run:
//
//	go build -o bin/winerun ./integration/wine/winerun
//	GOOS=windows go test -exec "$PWD/bin/winerun" ./proxy/...
//
// The first time it makes a Wine prefix in the user's cache, which all programs share. 125 is its own exit status; any
// other is the program's.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/portald/portald/integration/wine"
)

func main() {
	fmt.Fprintln(os.Stderr, "winerun:", run(os.Args[1:]))
	os.Exit(125)
}

// run returns only if the program could not be started.
func run(line []string) error {
	if len(line) == 0 {
		return errors.New("usage: winerun PROGRAM.exe ARGUMENTS…")
	}
	if err := wine.BindExactly(); err != nil {
		return err
	}
	ctx := context.Background()
	installation, err := wine.Open(ctx)
	if err != nil {
		return err
	}
	prefix := installation.Shared()
	if err := prefix.Warm(ctx); err != nil {
		return err
	}
	return prefix.Exec(line[0], line[1:]...)
}
