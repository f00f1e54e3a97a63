package ui

import (
	"fmt"
	"testing"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/browser"
)

// The page shows what happened on the node, in all views, by keys alone, on each screen.
func TestPage(t *testing.T) {
	s := newScene(t)
	w := newBrowser(s.Bed, s.origin)
	w.Screen(1280, false)
	w.Visit(s.page)
	w.Eventually("the first answer", `document.getElementById("main").dataset.ready === "yes"`)
	s.clients(40, bed.IP4)
	s.clients(3, "10.96.0.50")
	held, _, _ := s.Open("10.96.0.60:80")
	defer held.Close()
	for _, step := range []struct {
		name string
		do   func(*scene, *browser.Browser)
	}{
		{"services", (*scene).services}, {"service", (*scene).service}, {"failures", (*scene).failures},
		{"connections", (*scene).connections}, {"explain", (*scene).explain}, {"keys", (*scene).keys},
		{"screens", (*scene).screens},
	} {
		step.do(s, w)
		elsewhere, errors := w.Complaints()
		if len(elsewhere) > 0 || len(errors) > 0 {
			t.Errorf("%s: requests to others %v, errors %v", step.name, elsewhere, errors)
		}
	}
	w.Run(`localStorage.clear()`)
	w.Visit(s.origin)
	w.Has("#notice", "open the address that the command has printed")
}

// services: what fails comes first, with its failures and retries; what has no endpoint says so.
func (s *scene) services(w *browser.Browser) {
	w.Open("#/services")
	w.Eventually("the failures of cart", `(() => {
		const row = document.querySelector('a[href="#/service/shop%2Fcart%3Ahttp/tcp"]').closest("tr");
		const cell = (name) => row.querySelector('[data-name="' + name + '"]');
		return cell("Failed").dataset.mark === "bad" && /^\d+ · /.test(cell("Failed").innerText) &&
			+cell("Retries").innerText > 0 && row.querySelectorAll("rect.failed").length > 0 &&
			/≤ \d+ m?s/.test(cell("p99").innerText);
	})()`)
	w.Has("td", "no endpoint")
	first := browser.Evaluate[string](w, `document.querySelector("tbody [data-row]").innerText`)
	if first != "shop/checkout:http" && first != "shop/cart:http" {
		s.Errorf("the first Service is %s: want one with trouble", first)
	}
	w.Shoot("services")
}

// service: each endpoint tells what it did.
func (s *scene) service(w *browser.Browser) {
	w.Open("#/service/shop%2Fcart%3Ahttp/tcp")
	w.Has("tr", "connection refused")
	w.Eventually("the endpoints' failures", `(() => {
		const row = (pod) => [...document.querySelectorAll("tr")].find((r) => r.innerText.includes(pod));
		const failed = (pod) => row(pod)?.querySelector('[data-name="Failed"]').dataset.mark === "bad";
		return failed("shop/crashing") && failed("shop/pod2") && !failed("shop/pod0");
	})()`)
	w.Has(".node", "userspace, by the default")
	w.Has(".node", bed.IP4+":80")
	w.Shoot("service")
	w.Open("#/service/shop%2Fsearch%3Ahttp/tcp")
	w.Has(".node", "kernel, by its annotation portald.io/mode")
}

// failures: the records of those connections, each with its story, and changes on the same axis.
func (s *scene) failures(w *browser.Browser) {
	w.Open("#/failures")
	w.Has("td", "endpoint_reset: the endpoint reset the connection")
	w.Has("td", "ejected")
	w.Has(".summary", "× endpoint_reset")
	w.Run(`[...document.querySelectorAll("button[data-row]")].find((b) =>
		b.closest("tr").innerText.includes("endpoint_reset")).focus()`)
	w.Press(browser.Enter)
	for _, text := range []string{"came to " + bed.IP4 + ":80 (ClusterIP)", "accepted", "no byte came from the endpoint",
		"the endpoint reset the connection (ECONNRESET: connection reset by peer)"} {
		w.Has(".story li", text)
	}
	w.Has(".story dd", "endpoint, by reset")
	bars := browser.Evaluate[int](w, `document.querySelectorAll(".timeline rect.failed").length`)
	flags := browser.Evaluate[int](w, `document.querySelectorAll(".timeline .flag").length`)
	if bars == 0 || flags == 0 {
		s.Errorf("%d bars and %d changes on the axis of time", bars, flags)
	}
	w.Shoot("failures")
	w.Press(browser.Escape)
	w.Eventually("the story to be closed", `!document.querySelector(".story")`)
}

// connections: the one that is open.
func (s *scene) connections(w *browser.Browser) {
	w.Open("#/connections")
	w.Has("tr", "shop/payment:http")
	w.Shoot("connections")
	w.Press("/", "10.9.9.9")
	w.Has(".none", "No open connection matches.")
	w.Press(browser.Escape, browser.Escape)
	w.Has("tr", "shop/payment:http")
}

func (s *scene) explain(w *browser.Browser) {
	w.Open("#/explain/shop%2Fcheckout")
	w.Has(".verdict", "endpoint")
	w.Has("h3", "Frontends")
	w.Shoot("explain")
	w.Open("#/nodes")
	w.Has("td", "✓ answers")
}

// keys: from the list into a Service and back, without a mouse.
func (s *scene) keys(w *browser.Browser) {
	w.Press("1")
	w.Has("tr", "shop/mail:http")
	w.Press("/", "cart:h")
	w.Eventually("the filter", `[...document.querySelectorAll("tbody tr")].length === 1`)
	w.Press(browser.Down, browser.Enter)
	w.Has("h2", "shop/cart:http")
	w.Has("tr", "shop/pod0")
	w.Press(browser.Down, browser.Down, browser.Up)
	w.Eventually("the focus on a row", `document.activeElement.matches("[data-row]")`)
	w.Press(browser.Escape)
	w.Has("tr", "shop/mail:http")
	w.Press("?")
	w.Eventually("the list of keys", `document.getElementById("keys").open`)
	w.Press(browser.Escape)
	w.Eventually("the list to be closed", `!document.getElementById("keys").open`)
	w.Press("2")
	w.Eventually("failures", `location.hash === "#/failures"`)
}

// views are all that there are.
var views = map[string]string{
	"services": "#/services", "service": "#/service/shop%2Fcart%3Ahttp/tcp", "failures": "#/failures",
	"connections": "#/connections", "nodes": "#/nodes", "explain": "#/explain/shop%2Fcart",
}

// screens: nothing is wider than the screen, and texts differ enough from their ground.
func (s *scene) screens(w *browser.Browser) {
	for _, dark := range []bool{false, true} {
		for _, width := range []int64{360, 768, 1024, 1280, 1920} {
			w.Screen(width, dark)
			for name, view := range views {
				w.Open(view)
				if name == "failures" {
					w.Run(`document.querySelector("button[data-row]").click()`)
				}
				w.Fits(name)
				faint := browser.Evaluate[[]string](w, contrast)
				if len(faint) > 0 {
					s.Errorf("%s, dark %v: hard to read: %q", name, dark, faint)
				}
				w.Shoot(fmt.Sprintf("%s-%d-%v", name, width, dark))
			}
		}
	}
}

// contrast lists texts whose contrast is less than 4.5 to 1, as WCAG 2 measures it.
const contrast = `(() => {
	const light = (color) => {
		const [r, g, b] = color.match(/[\d.]+/g).slice(0, 3).map((n) => {
			n /= 255;
			return n <= 0.03928 ? n / 12.92 : ((n + 0.055) / 1.055) ** 2.4;
		});
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const ground = (element) => {
		for (let e = element; e; e = e.parentElement) {
			const color = getComputedStyle(e).backgroundColor;
			if (color !== "rgba(0, 0, 0, 0)" && color !== "transparent") return color;
		}
		return "rgb(255, 255, 255)";
	};
	const faint = new Set();
	for (const e of document.querySelectorAll("body *")) {
		if (e.closest("svg, option, noscript, .unseen, .skip") || !e.checkVisibility()) continue;
		if (e.closest("thead")?.offsetWidth < 2) continue;
		if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
		const [a, b] = [light(getComputedStyle(e).color), light(ground(e))];
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < 4.5) faint.add(e.className + ": " + e.innerText.slice(0, 40));
	}
	return [...faint];
})()`
