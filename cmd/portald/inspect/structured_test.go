package inspect

import (
	"strings"
	"testing"

	"github.com/portald/portald/proxy/adminsocket"
)

func TestOutputsOfLists(t *testing.T) {
	b := newBed(t)
	b.connections = []adminsocket.Connection{
		{ID: 1, Service: "shop/cart:http", Client: addr("10.244.0.9:40000")},
		{ID: 2, Service: "shop/\x1b[31mred", Client: addr("10.244.0.9:40001")},
	}
	for _, test := range []struct{ output, want string }{
		{"jsonpath={[*].id}", "1 2\n"},
		{"jsonpath={range [*]}{.client}{\"\\n\"}{end}", "10.244.0.9:40000\n10.244.0.9:40001\n\n"},
		{"jsonpath={[1].service}", "shop/\\x1b[31mred\n"},
		{"jsonpath={[*].nothing}", "\n"},
	} {
		if r := b.run("conns", "--sort", "age", "-o", test.output); r.err != nil || r.out != test.want {
			t.Errorf("%s: %q, %v, want %q", test.output, r.out, r.err, test.want)
		}
	}
	r := b.run("conns", "-o", "yaml")
	if r.err != nil || strings.Count(r.out, "\n  service: ") != 2 || strings.Contains(r.out, "\x1b") {
		t.Errorf("yaml: %v\n%s", r.err, r.out)
	}
	if r := b.run("services", "-o", "yaml"); r.err != nil || r.out != "[]\n" {
		t.Errorf("an empty list: %q, %v", r.out, r.err)
	}
	for _, output := range []string{"jsonpath", "jsonpath=", "jsonpath={", "xml", "yaml="} {
		if r := b.run("conns", "-o", output); r.code() != exitUsage {
			t.Errorf("%s: %q, %v, want that it is refused", output, r.out, r.err)
		}
	}
}
