package service

import "testing"

func TestRetryOn(t *testing.T) {
	value := replaySettings()[0].Value
	for text, want := range map[string]RetryOn{
		"connect":                          RetryConnect,
		"connect, reset-before-response":   RetryConnect | RetryReset,
		"reset-before-response,connect":    RetryConnect | RetryReset,
		"reset-before-response":            RetryConnect | RetryReset,
		" connect , reset-before-response": RetryConnect | RetryReset,
	} {
		var p Port
		if !value.Read(text, &p) || p.Policy.RetryOn != want {
			t.Errorf("%q: %v, want %v", text, p.Policy.RetryOn, want)
		}
		var again Port
		if !value.Read(p.Policy.RetryOn.String(), &again) || again.Policy.RetryOn != want {
			t.Errorf("%q is written as %q", text, p.Policy.RetryOn)
		}
	}
	for _, text := range []string{"", ",", "connect,", "connect;reset-before-response", "reset", "connect,connect"} {
		var p Port
		if value.Read(text, &p) || p.Policy.RetryOn != 0 {
			t.Errorf("%q is read as %v", text, p.Policy.RetryOn)
		}
	}
}

func TestRetryOnIsTheServices(t *testing.T) {
	defaults := DefaultPolicy()
	if defaults.RetryOn != RetryConnect {
		t.Errorf("the default is %v", defaults.RetryOn)
	}
	own := Policy{RetryOn: RetryConnect | RetryReset}
	if got := own.Or(defaults).RetryOn; got != own.RetryOn {
		t.Errorf("its own becomes %v", got)
	}
	if own.Equal(Policy{}) {
		t.Error("it makes no difference")
	}
}
