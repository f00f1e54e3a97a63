//go:build linux

package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// progress prints the progress of the run to standard error.
type progress struct {
	done, total int
	began       time.Time
}

func (p *progress) next(what string) {
	left := "?"
	if p.done > 0 {
		each := time.Since(p.began) / time.Duration(p.done)
		left = (each * time.Duration(p.total-p.done)).Round(time.Second).String()
	}
	p.done++
	fmt.Fprintf(os.Stderr, "[%d/%d, %s left] %s: ", p.done, p.total, left, what)
}

func (p *progress) say(w workload, f figures, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	var words []string
	for _, fig := range w.figures {
		words = append(words, fmt.Sprintf("%s %.*f", fig.name, fig.digits, f[fig.name]))
	}
	fmt.Fprintln(os.Stderr, strings.Join(words, ", "))
}
