package doctor

import "fmt"

func conntrackChecks() []Check {
	return []Check{{
		Name: "conntrack-room", Severity: Error, System: linux, What: "the conntrack table is nearly full",
		Why: "The kernel drops the packets of new connections when it is full (\"nf_conntrack: table full\"); a " +
			"warning from 80 %, an error from 95 % on.",
		Do:  "sysctl -w net.netfilter.nf_conntrack_max=TWICE; conntrack -S; who has most: conntrack -L | head -1000",
		run: conntrackHasRoom,
	}, {
		Name: "conntrack-drops", Severity: Warning, System: linux, What: "conntrack drops packets now",
		Why: "Packets of new connections are lost: clients retransmit after 1 s, then 2 s, then 4 s. " +
			"insert_failed: two packets of one flow at the same time, mostly UDP queries from one socket; drop " +
			"and early_drop: " +
			"the table was full.",
		Do:  "conntrack -S; sysctl net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max",
		run: conntrackDrops,
	}, {
		Name: "conntrack-buckets", Severity: Warning, System: linux,
		What: "the conntrack hash table is small for the maximum number of entries",
		Why: "Each packet walks a long list when the table is full. portald and kube-proxy set four entries " +
			"per bucket.",
		Do: "echo MAX/4 > /sys/module/nf_conntrack/parameters/hashsize", run: conntrackHashes,
	}}
}

func conntrackHasRoom(f *Facts) result {
	c := f.Conntrack.Value
	switch {
	case f.Conntrack.Err != nil:
		return unknown(f.Conntrack.Err)
	case c.Max == 0:
		return well("%d entries, without a limit", c.Count)
	}
	seen := fmt.Sprintf("%d of %d entries (%d %%)", c.Count, c.Max, percent(c.Count, c.Max))
	do := fmt.Sprintf("sysctl -w net.netfilter.nf_conntrack_max=%d; conntrack -S", 2*c.Max)
	return full(percent(c.Count, c.Max), seen, do)
}

func conntrackDrops(f *Facts) result {
	if f.Conntrack.Err != nil {
		return unknown(f.Conntrack.Err)
	}
	was, is := f.Conntrack.Value.Stats, f.Conntrack.Value.Later
	seen := fmt.Sprintf("insert_failed %d, drop %d, early_drop %d", is.InsertFailed, is.Drop, is.EarlyDrop)
	switch {
	case was != is:
		return wrong("", "within a second insert_failed grew by %d, drop by %d, early_drop by %d",
			is.InsertFailed-was.InsertFailed, is.Drop-was.Drop, is.EarlyDrop-was.EarlyDrop)
	case is.Drop+is.EarlyDrop > 0:
		return wrong("", "none now; since the start %s", seen).as(Note)
	}
	return well("%s, and not growing", seen)
}

// mostInBucket is how many entries a bucket may have on average in a full table: twice what portald sets.
const mostInBucket = 8

func conntrackHashes(f *Facts) result {
	c := f.Conntrack.Value
	switch {
	case f.Conntrack.Err != nil:
		return unknown(f.Conntrack.Err)
	case c.Buckets > 0 && c.Max/c.Buckets > mostInBucket:
		return wrong(fmt.Sprintf("echo %d > /sys/module/nf_conntrack/parameters/hashsize", c.Max/4),
			"%d buckets for up to %d entries", c.Buckets, c.Max)
	}
	return well("%d buckets for up to %d entries", c.Buckets, c.Max)
}
