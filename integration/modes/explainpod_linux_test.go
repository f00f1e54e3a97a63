package modes

import (
	"regexp"
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/proxy/explain"
)

// lines are all lines of the sections whose titles contain a text, with their details.
func (e explained) lines(title string) (out []string) {
	for _, s := range e.Sections {
		for _, l := range s.Lines {
			if strings.Contains(s.Title, title) {
				out = append(append(out, l.Text), l.Details...)
			}
		}
	}
	return out
}

// A pod is explained with the rules that lead to it, the rules that its own connections meet, and its own conntrack
// rows: nothing of another endpoint is there, in every mode.
func TestExplainAPod(t *testing.T) {
	bed.EachMode(t, func(b *bed.Bed, m bed.Mode) {
		b.ServePods(0, 1)
		db := b.Simple("db", "10.96.0.30", 0)
		d := b.Start(b.Cart(0, 1).String()+db.String(), m.Args...)
		own := "10.244.0.3"
		if !m.Kernel {
			own = "dials 10.244.0.3:8080"
		}

		for range 50 { // enough for each of two endpoints
			_, err := bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80))
			b.Must(err)
		}
		_, err := bed.Ask(b.Net.Pod(1), "tcp", bed.HostPort("10.96.0.30", 80))
		b.Must(err)

		e := explainOf(d, "pod/shop/"+bed.PodName(1), "")
		e.verdict(explain.Good, "pod shop/"+bed.PodName(1)+" is used")
		e.has("that lead to it", own)
		e.has("that lead to it", "nothing is missing")
		e.has("of its own connections to other Services", "shop/db:http: tcp 10.244.0.3:")
		ofOther := regexp.MustCompile(`(^| )10\.244\.0\.2(/32|:8080| \. )`)
		for _, line := range e.lines("") {
			if ofOther.MatchString(line) && !strings.HasPrefix(line, "shop/db:http: ") {
				t.Errorf("a line of the other endpoint: %s", line)
			}
		}
		if m.Kernel {
			e.has("that its own connections", "10.244.0.3")
			e.has("that its own connections", "are masqueraded")
			e.has("Connection tracking", "to 10.96.0.10:80, led to 10.244.0.3:8080")
		} else {
			e.has("Connection tracking", "to 10.244.0.3:8080")
		}
		if len(e.lines("Rules of other programs")) == 0 {
			t.Error("nothing is said of rules of other programs")
		}
		if m.Kernel {
			withoutRule(b, d, m)
		}
	})
}

// withoutRule removes what leads to one pod: that is the verdict about it, and the other pod is well.
func withoutRule(b *bed.Bed, d *bed.Daemon, m bed.Mode) {
	b.Helper()
	remove := map[string]string{
		"nftables": "nft delete element ip portald endpoints-ips-2 '{ 10.96.0.10 . tcp . 80 . 1 }'",
		"iptables": "c=$(iptables-save -t nat | grep -- '-p tcp -j DNAT --to-destination 10.244.0.3:8080'); " +
			"iptables -w -t nat -D ${c#-A }",
		"IPVS": "ipvsadm -d -t 10.96.0.10:80 -r 10.244.0.3:8080",
	}[m.Name]
	var lacks, well explained
	b.Eventually("explain before the audit has put the rule back", func() bool {
		b.On(b.Node, "sh", "-c", remove+" || true")
		lacks = explainOf(d, "10.244.0.3:8080/tcp", "")
		well = explainOf(d, "10.244.0.2:8080/tcp", "")
		return lacks.Verdict.Status == explain.Wrong
	})
	lacks.verdict(explain.Wrong, "Rules that lead to 10.244.0.3:8080 (pod shop/pod1) as an endpoint of shop/cart:http are")
	if well.Verdict.Status == explain.Wrong {
		b.Errorf("the other pod: %+v", well.Verdict)
	}
}

// A rule of another program that drops what is sent to one pod is the verdict about that pod alone.
func TestExplainAPodThatAFilterCutsOff(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1)
	d := b.Start(b.Cart(0, 1), "--proxy-mode=iptables", bed.PodRanges)
	b.On(b.Node, "iptables", "-w", "-I", "FORWARD", "-d", "10.244.0.3/32", "-p", "tcp", "-j", "DROP")
	explainOf(d, "pod/shop/"+bed.PodName(1), "").verdict(explain.Wrong, "-A FORWARD -d 10.244.0.3/32 -p tcp -j DROP")
	explainOf(d, "pod/shop/"+bed.PodName(0), "").verdict(explain.Good, "is used")
}
