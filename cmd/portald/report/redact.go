package report

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
)

// redactor replaces addresses and names by hashes. The key is of one report, and nobody keeps it.
type redactor struct {
	key   []byte
	names map[string]bool
	most  int // parts that - and . separate, of any name
}

func newRedactor() *redactor {
	r := &redactor{key: make([]byte, sha256.Size), names: map[string]bool{}}
	rand.Read(r.key) // it never fails
	return r
}

// redact replaces addresses and names in everything that is to be written.
func (c *collection) redact() {
	c.redacted = true
	r := newRedactor()
	if host, err := os.Hostname(); err == nil {
		r.learn(host)
	}
	for _, f := range c.files {
		r.learnFrom(string(f.text))
	}
	c.size = 0
	for i := range c.files {
		f := &c.files[i]
		f.text, f.about, f.note = []byte(r.file(string(f.text))), r.text(f.about), r.text(f.note)
		if room := min(maxFile, maxAll-c.size); len(f.text) > room { // hashes are longer than most names
			f.note = fmt.Sprintf("%d bytes at its end are left out", len(f.text)-room)
			f.text = f.text[:room]
		}
		c.size += len(f.text)
	}
	for i := range c.missing {
		c.missing[i].why = r.text(c.missing[i].why)
	}
}

// fields are the JSON fields and metric labels whose values are names, alone or as namespace/name:port; as a value that
// follows. A name in them is replaced wherever it stands.
var fields = regexp.MustCompile(`(?:"(?:service|pod|node|zone|client_pod|client_node|client_zone|holder|name|` +
	`hostnameOverride)": *|\b(?:namespace|service|pod|node|zone|endpoint_node)=)"((?:[^"\\]|\\.)*)"`)

// learnFrom learns names from the fields of JSON and metrics.
func (r *redactor) learnFrom(text string) {
	for _, m := range fields.FindAllStringSubmatch(text, -1) {
		namespace, name, ok := strings.Cut(m[1], "/")
		if !ok {
			namespace, name = "", m[1]
		}
		name, _, _ = strings.Cut(name, ":")
		r.learn(namespace)
		r.learn(name)
	}
}

// learn has a name replaced wherever it stands, unless it is a word of portald's own, or an address.
func (r *redactor) learn(name string) {
	if name == "" || own[name] || isAddress(name) || !label.MatchString(name) {
		return
	}
	r.names[name] = true
	r.most = max(r.most, strings.Count(name, "-")+strings.Count(name, ".")+1)
}

// label is what a name may be.
var label = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9_.]*$`)

// own are words that say nothing of a cluster, for every cluster has them or portald prints them. As names of their own
// they are replaced only in namespace/name.
var own = words(`default kube-system kube-public kube-node-lease kubernetes kube-dns kube-proxy portald
	userspace kernel iptables nftables ipvs netsh tcp udp sctp http https dns metrics
	service services endpoint endpoints pod pods node nodes client clients connection connections port ports
	open used ready removed ejected drained terminating failed ok error warning info none all auto on off true false
	address addresses addr host mac name mode state proto kind last time since version rules daemon`)

// common are the names of namespaces and Services that every cluster has.
var common = words("default kube-system kube-public kube-node-lease kubernetes kube-dns")

func words(text string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(text) {
		set[word] = true
	}
	return set
}

// paths look like namespace/name and are none.
var paths = words("linux/amd64 linux/arm64 windows/amd64 text/plain and/or read/write n/a")

// port is a port with its protocol, which looks like one too.
var port = regexp.MustCompile(`^[0-9]+/(?:tcp|udp|sctp)$`)

// hash is what stands for a name or address in this report.
func (r *redactor) hash(kind, of string) string {
	h := hmac.New(sha256.New, r.key)
	h.Write([]byte(of))
	return kind + "-" + hex.EncodeToString(h.Sum(nil))[:12]
}

func (r *redactor) name(name string) string {
	if common[name] {
		return name
	}
	return r.hash("name", name)
}

var (
	// slashed is namespace/name, as of a Service or a pod.
	slashed = regexp.MustCompile(`((?:pod|service|svc)/)?([a-z0-9][-a-z0-9]*)/([a-z0-9][-a-z0-9.]*)(/(?:tcp|udp|sctp)\b)?`)
	// token is a word, in which a name may stand.
	token = regexp.MustCompile(`[A-Za-z0-9_][-A-Za-z0-9_.]*`)
	// addressed is what may be an IPv4 or IPv6 address.
	addressed = regexp.MustCompile(`[0-9A-Fa-f]*:[0-9A-Fa-f:.]*[0-9A-Fa-f:]|[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+`)
	// mac is the address of a network device.
	mac = regexp.MustCompile(`\b[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}\b`)
	// host is that of a URL.
	host = regexp.MustCompile(`(https?://)([A-Za-z0-9][-A-Za-z0-9.]*)`)
)

// file returns the text of a file without addresses and names. What metrics say of themselves has none, and would look
// as if it had.
func (r *redactor) file(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "# HELP ") {
			line = r.text(line)
		}
		out.WriteString(line)
	}
	return out.String()
}

// text returns a line without addresses and names.
func (r *redactor) text(text string) string {
	text = host.ReplaceAllStringFunc(text, func(url string) string {
		m := host.FindStringSubmatch(url)
		if isAddress(m[2]) || m[2] == "localhost" {
			return url
		}
		return m[1] + r.hash("host", m[2])
	})
	text = mac.ReplaceAllStringFunc(text, func(m string) string { return r.hash("mac", strings.ToLower(m)) })
	text = addressed.ReplaceAllStringFunc(text, r.address)
	return token.ReplaceAllStringFunc(r.slashed(text), r.parts)
}

// isAddress tells whether a text is an IP address.
func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

// address replaces an address, of which a port may be the last part; what is the same on every host stays.
func (r *redactor) address(text string) string {
	at, rest := text, ""
	addr, err := netip.ParseAddr(at)
	for err != nil { // "10.0.0.9:80" begins with one, and so does "fd00::9:" at the end of a clause
		i := strings.LastIndexAny(at, ":.")
		if i <= 0 {
			return text
		}
		at, rest = at[:i], at[i:]+rest
		addr, err = netip.ParseAddr(at)
	}
	if addr = addr.Unmap(); addr.IsLoopback() || addr.IsUnspecified() {
		return text
	}
	return r.hash("addr", addr.String()) + rest
}

// slashed replaces the parts of each namespace/name.
func (r *redactor) slashed(text string) string {
	return replace(text, slashed, func(found string, before, after byte) string {
		m := slashed.FindStringSubmatch(found)
		kind, namespace, name, protocol := m[1], m[2], m[3], m[4]
		whole := strings.TrimRight(name, ".-") // the rest ends a sentence
		if before != 0 && strings.IndexByte("/.:_-", before) >= 0 || after != 0 && strings.IndexByte("/_", after) >= 0 ||
			isPath(namespace, whole) {
			return found
		}
		return kind + r.name(namespace) + "/" + r.name(whole) + name[len(whole):] + protocol
	})
}

// isPath tells what looks like namespace/name and is a path, a fraction, a mask, a prefix length or a port, or words of
// portald's own.
func isPath(namespace, name string) bool {
	fileOrNumber := strings.Contains(name, ".") || strings.Trim(name, "0123456789") == "" ||
		strings.HasPrefix(name, "0x") || strings.HasPrefix(namespace, "addr-")
	return fileOrNumber || own[namespace] && own[name] && !common[namespace] || paths[namespace+"/"+name] ||
		port.MatchString(namespace+"/"+name)
}

// parts replaces in a word the longest names that are made of whole parts of it.
func (r *redactor) parts(word string) string {
	if len(r.names) == 0 {
		return word
	}
	var out strings.Builder
	for begin := 0; begin < len(word); {
		var ends []int // after each part
		for i := begin; i <= len(word) && len(ends) < r.most; i++ {
			if i == len(word) || word[i] == '-' || word[i] == '.' {
				ends = append(ends, i)
			}
		}
		slices.Reverse(ends)
		end := ends[len(ends)-1]
		known := false
		for _, e := range ends {
			if known = r.names[word[begin:e]]; known {
				end = e
				break
			}
		}
		if known {
			out.WriteString(r.name(word[begin:end]))
		} else {
			out.WriteString(word[begin:end])
		}
		if end < len(word) {
			out.WriteByte(word[end])
		}
		begin = end + 1
	}
	return out.String()
}

// replace replaces what an expression finds, given the byte before it and the one behind, 0 for none.
func replace(text string, what *regexp.Regexp, by func(found string, before, after byte) string) string {
	var out strings.Builder
	last := 0
	for _, at := range what.FindAllStringIndex(text, -1) {
		var before, after byte
		if at[0] > 0 {
			before = text[at[0]-1]
		}
		if at[1] < len(text) {
			after = text[at[1]]
		}
		out.WriteString(text[last:at[0]])
		out.WriteString(by(text[at[0]:at[1]], before, after))
		last = at[1]
	}
	out.WriteString(text[last:])
	return out.String()
}
