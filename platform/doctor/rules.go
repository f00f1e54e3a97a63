package doctor

import (
	"fmt"
	"time"
)

func ruleChecks() []Check {
	return []Check{{
		Name: "xtables-lock", Severity: Error, System: linux, What: "one process holds the iptables lock for a " +
			"long time",
		Why: "iptables-legacy waits for the lock: changes of Services and of the CNI do not reach the kernel.",
		Do:  "lsof /run/xtables.lock; end the process if it hangs", run: lockIsFree,
	}, {
		Name: "iptables", Severity: Error, System: linux, What: "the command iptables fails, or does not answer in time",
		Why: "portald, with the writers iptables and ipvs, cannot change rules.",
		Do:  "iptables -w 5 -t nat -S PREROUTING",
		run: iptablesAnswers,
	}, {
		Name: "rules", Severity: Error, System: linux, What: "the chains or the table that portald writes are not there",
		Why: "Another program flushed or deleted them: packets to Services are not translated until portald's " +
			"next check.",
		Do:  "nft monitor shows who changes what (iptables-nft too); portald writes its rules again by itself",
		run: rulesAreThere,
	}, {
		Name: "rules-changed", Severity: Warning, System: linux, What: "others changed the rules that portald wrote",
		Why: "Until portald restores them, new connections to Services fail or go elsewhere: an error until then. " +
			"portald sees it within a second and a half, and waits longer each time if it happens repeatedly. " +
			"With nftables and iptables-nft it knows the program from the second time on.",
		Do: "nft monitor shows each change, and the process that makes it; a unit or script that flushes all rules (nft " +
			"flush ruleset, iptables -F) has to leave out portald's",
		run: rulesStay,
	}, {
		Name: "kube-proxy-rules", Severity: Error, System: linux, What: "rules of kube-proxy in addition to " +
			"portald's",
		Why: "Two service proxies translate the same packets: the order of rules decides which one wins, and " +
			"kube-proxy's endpoints are as old as its last run.",
		Do:  "kube-proxy --cleanup",
		run: noKubeProxyRules,
	}, {
		Name: "kube-proxy-process", Severity: Error, System: linux, What: "a kube-proxy that runs on the same node",
		Why: "Both write rules for the same Services, and claim the same health port.",
		Do:  "kubectl -n kube-system get pods -o wide | grep kube-proxy", run: noKubeProxy,
	}, {
		Name: "leftovers", Severity: Warning, System: linux, What: "rules that portald wrote in another mode or variant",
		Why: "They may send packets to endpoints and proxy ports that no longer exist, before the current " +
			"rules apply.",
		Do:  "portald cleanup, then restart portald",
		run: noLeftovers,
	}, {
		Name: "ipvs-leftovers", Severity: Warning, System: linux,
		What: "virtual servers of IPVS, or their interface, without a proxy that uses them",
		Why: "The interface makes the addresses of Services the node's own, and IPVS forwards packets for them " +
			"to outdated endpoints.",
		Do: "ipvsadm --clear; ip link delete kube-ipvs0", run: noIPVSLeftovers,
	}, {
		Name: "ipvs-modules", Severity: Error, System: linux, What: "a kernel without IPVS, with the writer ipvs",
		Why: "portald cannot write virtual servers.", Do: "modprobe -a ip_vs ip_vs_rr ip_set xt_set", run: ipvsIsLoaded,
	}}
}

// lately is how long ago a change of rules is worth a finding.
const lately = time.Hour

func rulesStay(f *Facts) result {
	d, err := f.daemon()
	if err != nil {
		return unknown(err)
	}
	is := d.Disturbed
	if is.Times == 0 {
		return well("nobody else has changed portald's rules")
	}
	ago := time.Since(is.Last).Round(time.Second)
	seen := fmt.Sprintf("%d times, the last %s ago: %s", is.Times, ago, is.Found)
	if len(is.By) > 0 {
		seen += "; lately by " + few(is.By)
	}
	switch {
	case is.Missing:
		return wrong("", "%s; not made good yet", seen).as(Error)
	case ago > lately:
		return well("%s", seen)
	}
	return wrong("", "%s; it was made good", seen)
}

// longHeld is longer than any change of rules holds the lock, and as long as the doctor watches it.
const longHeld = 900 * time.Millisecond

func lockIsFree(f *Facts) result {
	l := f.XtablesLock.Value
	switch {
	case f.XtablesLock.Err != nil:
		return unknown(f.XtablesLock.Err)
	case l.By == "" || l.Held < longHeld:
		return well("%s is free", l.Path)
	}
	return wrong("", "%s is held by %s for at least %s; %d processes wait for it", l.Path, l.By,
		l.Held.Round(100*time.Millisecond), l.Waiting)
}

// slowAnswer is how long iptables may take without a finding.
const slowAnswer = time.Second

func iptablesAnswers(f *Facts) result {
	a, by := f.IPTables.Value, f.Daemon.Value.Writer
	switch {
	case f.IPTables.Err != nil:
		return unknown(f.IPTables.Err)
	case a.Failed != nil && by != nftables:
		return wrong("", "%v", a.Failed)
	case a.Failed != nil:
		return wrong("", "%v; portald writes by %s", a.Failed, by).as(Note)
	case a.Took > slowAnswer:
		return wrong("", "iptables answered after %s", a.Took.Round(time.Millisecond)).as(Warning)
	}
	return well("iptables answered in %s", a.Took.Round(time.Millisecond))
}
