package load

import "time"

// Result is what a client measured.
type Result struct {
	Exchanges int64         `json:"exchanges"` // requests that were answered
	Failed    int64         `json:"failed"`    // refused, reset or timed out; with UDP: lost
	Elapsed   time.Duration `json:"elapsed_ns"`
	P50       time.Duration `json:"p50_ns"` // from request (of a new connection: from connect) to reply
	P99       time.Duration `json:"p99_ns"`
}

// Rate is exchanges per second.
func (r Result) Rate() float64 { return float64(r.Exchanges) / r.Elapsed.Seconds() }

// tally collects a Result.
type tally struct {
	start  time.Time
	failed int64
	took   histogram
}

// patience is how much longer a run lasts where no exchange succeeded in its time, as on a machine that stood still:
// what was lost by then is no figure of the proxy.
const patience = 5 * time.Second

// over tells whether a run has ended that is to last so long.
func (t *tally) over(now time.Time, after time.Duration) bool {
	ran := now.Sub(t.start)
	return ran >= after && (t.took.total > 0 || ran >= after+patience)
}

func (t *tally) result() Result {
	return Result{
		Exchanges: int64(t.took.total), Failed: t.failed, Elapsed: time.Since(t.start),
		P50: t.took.quantile(0.5), P99: t.took.quantile(0.99),
	}
}
