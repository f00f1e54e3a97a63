package daemon

import "testing"

func TestCheckRuntime(t *testing.T) {
	for value, refused := range map[string]bool{
		"": false, "asyncpreemptoff=0": false, "asyncpreemptoff=x": false,
		"madvdontneed=1": false, "xasyncpreemptoff=1": false,
		"asyncpreemptoff=1": true, "gctrace=1,asyncpreemptoff=1,madvdontneed=1": true, "asyncpreemptoff=2": true,
		"asyncpreemptoff=1,asyncpreemptoff=0": false, "asyncpreemptoff=0,asyncpreemptoff=1": true,
	} {
		t.Setenv("GODEBUG", value)
		if err := checkRuntime(); (err != nil) != refused {
			t.Errorf("GODEBUG=%s: %v", value, err)
		}
	}
}
