package otlp

// lost counts what the collector did not get.
type lost struct{ reports, changes uint64 }

// loss is what the log was told of it.
type loss struct {
	seen, told lost
	losing     bool
}

// tellLoss logs once when reports or changes begin to be dropped, and how many were once that has ended, or the
// exporter does.
func (e *Exporter) tellLoss(end bool) {
	now := lost{e.reports.Dropped(), e.changes.Dropped()}
	of := &e.loss
	switch {
	case now != of.seen && !end:
		if !of.losing && !e.failing { // of failures the log knows
			e.log.Warn("The collector falls behind: connection records or changes are being dropped")
		}
		of.losing = true
	case now != of.told:
		e.log.Warnf("The collector did not get %d connection records and %d changes",
			now.reports-of.told.reports, now.changes-of.told.changes)
		of.told, of.losing = now, false
	}
	of.seen = now
}
