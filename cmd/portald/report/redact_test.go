package report

import (
	"regexp"
	"strings"
	"testing"
)

// redactedText redacts a text after names were learned from JSON and metrics.
func redactedText(r *redactor, text string) string {
	r.learnFrom(`[{"name":"shop/cart:http","node":"worker-1"},{"pod": "shop/cart-a1","client_pod":"web/front-7.x"}]` +
		"\n" + `portald_open{namespace="shop",service="checkout"} 1`)
	return r.file(text)
}

// Names and addresses are gone from text of every kind, the same one has the same hash, and what is around stays.
func TestRedact(t *testing.T) {
	r := newRedactor()
	name := func(n string) string { return r.hash("name", n) }
	address := func(a string) string { return r.hash("addr", a) }
	for text, want := range map[string]string{
		"shop/cart:http":                     name("shop") + "/" + name("cart") + ":http",
		"pod/shop/cart-a1 is away":           "pod/" + name("shop") + "/" + name("cart-a1") + " is away",
		"pod/other/never-seen":               "pod/" + name("other") + "/" + name("never-seen"),
		"explain shop/cart:http/tcp":         "explain " + name("shop") + "/" + name("cart") + ":http/tcp",
		"explain other/dns/udp.":             "explain " + name("other") + "/" + name("dns") + "/udp.",
		"in cart.":                           "in " + name("cart") + ".",
		"the slice cart-x9 of cart":          "the slice " + name("cart") + "-x9 of " + name("cart"),
		"cart-a1-x":                          name("cart-a1") + "-x",
		"cart.shop.svc.cluster.local":        name("cart") + "." + name("shop") + ".svc.cluster.local",
		"on worker-1, not worker-10":         "on " + name("worker-1") + ", not worker-10",
		"front-7.x":                          name("front-7.x"),
		"portald_cart{service=\"checkout\"}": "portald_cart{service=\"" + name("checkout") + "\"}",
		"# HELP portald_cart of a cart":      "# HELP portald_cart of a cart",
		"10.0.0.9:41234 → [fd00::9]:80":      address("10.0.0.9") + ":41234 → [" + address("fd00::9") + "]:80",
		"::ffff:10.0.0.9":                    address("10.0.0.9"),
		"-d 10.96.0.0/16 0.0.0.0/0 ::1":      "-d " + address("10.96.0.0") + "/16 0.0.0.0/0 ::1",
		"fe80::1%eth0":                       address("fe80::1") + "%eth0",
		"link 02:42:AC:11:00:02 up":          "link " + r.hash("mac", "02:42:ac:11:00:02") + " up",
		"https://api.example.com:6443/x":     "https://" + r.hash("host", "api.example.com") + ":6443/x",
		"https://10.0.0.1:6443":              "https://" + address("10.0.0.1") + ":6443",
		"kube-system/kube-dns:dns":           "kube-system/kube-dns:dns",
		"default/cart":                       "default/" + name("cart"),
		"2026-11-28 03:10:05.114 tcp 2/3":    "2026-11-28 03:10:05.114 tcp 2/3",
		"/proc/sys/net/ipv4/ip_forward":      "/proc/sys/net/ipv4/ip_forward",
		"see docs/retries.md, linux/amd64":   "see docs/retries.md, linux/amd64",
		"mark 0x4000/0x4000, 80/tcp":         "mark 0x4000/0x4000, 80/tcp",
		"portald.io/mode userspace/kernel":   "portald.io/mode userspace/kernel",
		"kernel 6.1.0-13-amd64":              "kernel 6.1.0-13-amd64",
	} {
		if got := redactedText(r, text); got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
}

// The hashes of two reports differ, so that nobody can look names up.
func TestRedactIsKeyed(t *testing.T) {
	a, b := redactedText(newRedactor(), "shop/cart 10.0.0.9"), redactedText(newRedactor(), "shop/cart 10.0.0.9")
	form := regexp.MustCompile(`^name-[0-9a-f]{12}/name-[0-9a-f]{12} addr-[0-9a-f]{12}$`)
	if a == b || !form.MatchString(a) || !form.MatchString(b) {
		t.Errorf("%s and %s", a, b)
	}
}

// Everything that a report has is redacted, its index too, and stays within the bound of a file.
func TestRedactCollection(t *testing.T) {
	c := &collection{
		files: []file{
			{name: "services.json", text: []byte(`[{"name":"shop/cart:http"}]`)},
			{name: "explain/01.txt", about: "why shop/cart:http/tcp", note: "ended with: cart", text: []byte("of cart")},
			{name: "long.txt", text: []byte(strings.Repeat("cart ", maxFile/5))},
		},
		missing: []missing{{"metrics.txt", "10.0.0.9 is away"}},
	}
	c.redact()
	all := string(c.index())
	for _, f := range c.files {
		all += string(f.text)
	}
	if regexp.MustCompile(`shop|cart|10\.0\.0\.9`).MatchString(all) {
		t.Errorf("names are left:\n%s", c.index())
	}
	if long := c.files[2]; len(long.text) != maxFile || !strings.HasSuffix(long.note, " bytes at its end are left out") {
		t.Errorf("%d bytes, note %q", len(long.text), long.note)
	}
}
