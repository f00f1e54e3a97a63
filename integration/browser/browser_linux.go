package browser

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/portald/portald/integration/topology"
)

// Browser is a headless Chromium on a host, with one page.
type Browser struct {
	testing.TB
	// Patience bounds how long the page may take to show something.
	Patience time.Duration

	ctx    context.Context
	origin string

	mu        sync.Mutex
	elsewhere []string // requests to other servers
	errors    []string // of the console, and exceptions
}

// New starts a Chromium on a host, whose page may only ask the server of an origin.
func New(t testing.TB, host *topology.Host, origin string) *Browser {
	t.Helper()
	profile, err := os.MkdirTemp("", "chromium")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(profile); err != nil {
			t.Error(err)
		}
	})
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.ExecPath("chromium"), chromedp.UserDataDir(profile), chromedp.Flag("disable-component-update", true),
		chromedp.ModifyCmdFunc(func(cmd *exec.Cmd) {
			onHost := host.Command(context.Background(), cmd.Path, cmd.Args[1:]...)
			cmd.Path, cmd.Args = onHost.Path, onHost.Args
		}))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	tab, stop := chromedp.NewContext(allocator)
	t.Cleanup(stop)
	w := &Browser{TB: t, Patience: time.Minute, ctx: tab, origin: origin}
	w.must(chromedp.Do(tab)) // it ends with this context
	w.must(chromedp.Listen(tab, w.heard))
	w.do(call(network.Enable, network.EnableParams{}), call(runtime.Enable, cdp.Empty{}), call(log.Enable, cdp.Empty{}))
	return w
}

func (w *Browser) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// Visit goes to an address.
func (w *Browser) Visit(address string) {
	w.Helper()
	w.do(chromedp.Navigate(address))
}

// call is a command of the protocol as a step.
func call[P any](command cdp.Command[P, cdp.Empty], params P) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (none chromedp.Void, err error) {
		_, err = cdp.Call(ctx, t, command, params)
		return none, err
	}
}

// heard takes what the page does.
func (w *Browser) heard(event any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, w.origin+"/") && e.Request.URL != "about:blank" {
			w.elsewhere = append(w.elsewhere, e.Request.URL)
		}
	case *runtime.EventExceptionThrown:
		w.errors = append(w.errors, fmt.Sprintf("%s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" || e.Type == "assert" {
			w.errors = append(w.errors, fmt.Sprintf("console.%s %+v", e.Type, e.Args))
		}
	case *log.EventEntryAdded:
		w.errors = append(w.errors, fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	}
}

// Complaints are what the page asked elsewhere, and its errors, since the last call.
func (w *Browser) Complaints() (elsewhere, errors []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	elsewhere, errors, w.elsewhere, w.errors = w.elsewhere, w.errors, nil, nil
	return elsewhere, errors
}

func (w *Browser) do(steps ...chromedp.Action[chromedp.Void]) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, w.Patience)
	defer cancel()
	w.must(chromedp.Do(ctx, steps...))
}

// Evaluate is what JavaScript returns.
func Evaluate[T any](w *Browser, script string) T {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, w.Patience)
	defer cancel()
	out, err := chromedp.Run(ctx, chromedp.Evaluate[T](script))
	if err != nil {
		w.Fatalf("%s: %v", script, err)
	}
	return out
}

func (w *Browser) Run(script string) {
	w.Helper()
	Evaluate[chromedp.Void](w, script)
}

// Open shows a view, once it has its first answer.
func (w *Browser) Open(view string) {
	w.Helper()
	w.Run(`location.hash = ` + Quote(view))
	w.Eventually(view+" to be shown", `location.hash === `+Quote(view)+
		` && document.getElementById("main").dataset.ready === "yes"`)
}

// Quote is a text in JavaScript.
func Quote(s string) string { return fmt.Sprintf("%q", s) }

// Eventually waits until JavaScript is true.
func (w *Browser) Eventually(what, script string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, w.Patience)
	defer cancel()
	poll := chromedp.Poll[chromedp.Void](script, chromedp.WithPollingInterval(50*time.Millisecond))
	if err := chromedp.Do(ctx, poll); err != nil {
		w.Shoot("failed")
		elsewhere, errors := w.Complaints()
		w.Fatalf("waited for %s: %v; requests to others %v, errors %v\n%s", what, err, elsewhere, errors,
			Evaluate[string](w, `document.body.innerText`))
	}
}

// Has waits until what a selector finds has a text.
func (w *Browser) Has(selector, text string) {
	w.Helper()
	w.Eventually(fmt.Sprintf("%q in %s", text, selector), fmt.Sprintf(
		`[...document.querySelectorAll(%q)].some((e) => e.innerText.includes(%q))`, selector, text))
}

// Press presses keys, each of which may be a text.
func (w *Browser) Press(keys ...string) {
	w.Helper()
	for _, key := range keys {
		w.do(chromedp.KeyEvent(key))
	}
}

// The keys that have no character.
const (
	Escape = kb.Escape
	Enter  = kb.Enter
	Down   = kb.ArrowDown
	Up     = kb.ArrowUp
)

// Screen sets the size of the page, and whether the user wants it dark.
func (w *Browser) Screen(width int64, dark bool) { w.Size(width, 900, dark) }

func (w *Browser) Size(width, height int64, dark bool) {
	w.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	w.do(call(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500}),
		call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
}

var pictures = flag.String("pictures", "", "the directory for pictures of each view; they take four minutes")

// Pictures tells whether pictures are wanted.
func Pictures() bool { return *pictures != "" }

// Fits fails the test if what is shown is wider than the screen.
func (w *Browser) Fits(what string) {
	w.Helper()
	if sizes := Evaluate[[]int](w, `[document.documentElement.scrollWidth, innerWidth]`); sizes[0] > sizes[1] {
		w.Errorf("%s is %d pixels wide on a screen of %d", what, sizes[0], sizes[1])
	}
}

// Shoot writes a picture of the page, if there is a directory for it.
func (w *Browser) Shoot(name string) {
	w.Helper()
	if !Pictures() {
		return
	}
	ctx, cancel := context.WithTimeout(w.ctx, w.Patience)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	w.must(err)
	w.must(os.WriteFile(filepath.Join(*pictures, name+".png"), picture, 0o644))
}
