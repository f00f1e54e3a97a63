package service

import (
	"slices"
	"testing"
	"time"
)

// The daemon's defaults set every field, so that nothing is left open where a Service sets nothing.
func TestDefaultPolicy(t *testing.T) {
	want := Policy{
		ConnectTimeouts: []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second},
		HalfClose:       time.Hour, Idle: Never, UDPIdle: time.Minute, MaxConnections: -1, ClientAddress: AddressNode,
		Algorithm: RoundRobin, SlowStart: Never,
		EjectAfter: 3, EjectOn: EjectConnect | EjectReset, RetryBudget: 20,
		HedgeAfter: Never, Logging: Logging{RecordsAll, 1},
		KernelRecords: RecordsOff,
		Shares:        Shares{-1, -1, -1, 1024},
		Removed:       RemovedEndpoint{Do: KeepConnections}, DeadPeer: 3 * time.Minute, MaxAge: Age{Time: Never},
		RetryOn:         RetryConnect,
		WaitForEndpoint: Never,
	}
	if got := DefaultPolicy(); !got.Equal(want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestConnectTimeoutsAreOneForEachDial(t *testing.T) {
	daemon := Policy{ConnectTimeouts: []time.Duration{1, 2, 3}}
	for _, c := range []struct{ own, want []time.Duration }{
		{nil, []time.Duration{1}}, {nil, []time.Duration{1, 2}}, {nil, []time.Duration{1, 2, 3, 3, 3}},
		{[]time.Duration{7, 8}, []time.Duration{7}}, {[]time.Duration{7, 8}, []time.Duration{7, 8, 8}},
	} {
		p := Policy{ConnectTimeouts: c.own, Dials: len(c.want)}.Or(daemon)
		if !slices.Equal(p.ConnectTimeouts, c.want) || p.Dials != 0 {
			t.Errorf("%v for %d dials: %v", c.own, len(c.want), p)
		}
	}
}

// In each mode a setting counts, or the table says what a Service has instead; of values, only those are missed that
// ask for something else.
func TestWhatCountsInWhichMode(t *testing.T) {
	both := []string{"mode", DebugUntil, "connection-log", "connection-log-sample", "algorithm"}
	for _, s := range Settings() {
		kernel, userspace := s.Instead(ModeKernel) == "", s.Instead(ModeUserspace) == ""
		want := [2]bool{slices.Contains(both, s.Name) || s.Name == "kernel-records", s.Name != "kernel-records"}
		if got := [2]bool{kernel, userspace}; got != want {
			t.Errorf("%s counts in the kernel and in userspace: %t, want %t", s.Name, got, want)
		}
		if s.KernelValue != "" && (kernel || !s.Value.Read(s.KernelValue, &Port{}) || s.Missed(ModeKernel, s.KernelValue)) {
			t.Errorf("%s: %q is not what the kernel does", s.Name, s.KernelValue)
		}
	}
	for _, c := range []struct {
		name, value string
		missed      bool
	}{
		{"retries", "2", true}, {"retries", "0", false}, {"max-age", "0s", false}, {"max-age", "10m+-20%", true},
		{"removed-endpoint", "keep", false}, {"removed-endpoint", "close-when-idle", true}, {"retry-on", "connect", false},
		{"eject-on", "connect,closed-early", true}, {"eject-on", "connect,reset-before-response", false},
		{"client-address", "node", true}, {"algorithm", "random", false}, {"udp-timeout", "5s", true},
		{"keep-payload", "off", false}, {"keep-payload", "badly-ended", true},
	} {
		s, known := SettingOf(c.name)
		if !known || s.Missed(ModeKernel, c.value) != c.missed || s.Missed(ModeUserspace, c.value) {
			t.Errorf("%s %q: known %t, want missed %t in the kernel alone", c.name, c.value, known, c.missed)
		}
	}
}
