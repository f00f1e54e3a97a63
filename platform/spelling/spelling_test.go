package spelling

import "testing"

func TestNearest(t *testing.T) {
	words := []string{"userspace", "kernel", "retry-on", "retries", "off"}
	for written, want := range map[string]string{
		"usersapce": "userspace", "kernl": "kernel", "retry-no": "retry-on", "retrys": "retries", "iptables": "", "": "",
		"x": "", "of": "off", "on": "",
	} {
		if got, ok := Nearest(written, words); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %v, want %q", written, got, ok, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for words, want := range map[[2]string]int{
		{"", ""}: 0, {"", "ab"}: 2, {"ab", ""}: 2, {"ab", "ba"}: 1, {"chekc", "check"}: 1, {"kitten", "sitting"}: 3,
		{"abcd", "badc"}: 2, {"ca", "abc"}: 3,
	} {
		if got := Distance(words[0], words[1]); got != want {
			t.Errorf("%q: %d, want %d", words, got, want)
		}
	}
}
