package doctor

import (
	"fmt"
	"strconv"
	"strings"
)

func limitChecks() []Check {
	return []Check{{
		Name: "descriptors", Severity: Error, System: linux, What: "portald has nearly reached its descriptor limit",
		Why: "A connection takes two, and more for large amounts of data. New connections are refused when none is " +
			"left; a warning from 80 %, an error from 95 % on.",
		Do: "LimitNOFILE=1048576 in the unit, or ulimit -n; portald conns --sort age", run: descriptorsAreLeft,
	}, {
		Name: "descriptor-limit", Severity: Warning, System: linux, What: "portald has a low descriptor limit",
		Why: "A connection takes two: 65,536 of them allow about 32,000 connections at a time.",
		Do:  "LimitNOFILE=1048576 in the unit, or the container runtime's limit", run: descriptorLimitIsHigh,
	}, {
		Name: "host-files", Severity: Error, System: linux, What: "the host has nearly reached its limit of " +
			"open files",
		Why: "Then no program on the host can open files or sockets; a warning from 80 %, an error from 95 % on.",
		Do:  "sysctl -w fs.file-max=TWICE; who has most: lsof | awk '{print $1}' | sort | uniq -c | sort -n",
		run: filesAreLeft,
	}, {
		Name: "pipes", Severity: Warning, System: linux, What: "a low limit for pipe memory",
		Why: "portald moves large amounts of data through pipes, and uses 25 % of fs.pipe-user-pages-soft for " +
			"them. " +
			"Without pipes it copies, which costs CPU.",
		Do: "sysctl -w fs.pipe-user-pages-soft=16384", run: pipesAreLeft,
	}, {
		Name: "memory", Severity: Error, System: linux, What: "portald's cgroup has almost no memory left, or " +
			"was OOM-killed",
		Why: "The OOM killer ends portald, and with it every connection of userspace mode; a warning from 80 %, an " +
			"error from 95 % on.",
		Do: "raise the memory limit of the pod, or MemoryMax of the unit", run: memoryIsLeft,
	}}
}

func descriptorsAreLeft(f *Facts) result {
	if f.Process.Err != nil {
		return unknown(f.Process.Err)
	}
	p := f.Process.Value
	used := percent(p.Descriptors, p.Limit)
	return full(used, fmt.Sprintf("portald has %d of %d descriptors open (%d %%)", p.Descriptors, p.Limit, used), "")
}

// fewDescriptors is a limit below which a busy node runs out of them.
const fewDescriptors = 65536

func descriptorLimitIsHigh(f *Facts) result {
	switch limit := f.Process.Value.Limit; {
	case f.Process.Err != nil:
		return unknown(f.Process.Err)
	case limit < fewDescriptors:
		return wrong("", "portald may open %d descriptors", limit)
	default:
		return well("portald may open %d descriptors", limit)
	}
}

func filesAreLeft(f *Facts) result {
	text, err := f.sysctl(openFiles)
	if err != nil {
		return unknown(err)
	}
	var open, free, most int64
	if _, err := fmt.Sscan(strings.TrimSpace(text), &open, &free, &most); err != nil || most <= 0 {
		return unknown(fmt.Errorf("%s is %q, which are not three numbers", openFiles, text))
	}
	used := int(open * 100 / most)
	return full(used, fmt.Sprintf("%d of %d files are open (%d %%)", open, most, used),
		fmt.Sprintf("sysctl -w fs.file-max=%d", 2*min(most, 1<<61)))
}

// usualPipePages is the kernel's default: 64 MB of pipes.
const usualPipePages = 16384

func pipesAreLeft(f *Facts) result {
	text, err := f.sysctl(pipePages)
	if err != nil {
		return unknown(err)
	}
	switch pages, err := strconv.Atoi(text); {
	case err != nil:
		return unknown(fmt.Errorf("%s is %q, which is not a number", pipePages, text))
	case pages != 0 && pages < usualPipePages:
		return wrong("", "%s is %d, the kernel's default is %d", pipePages, pages, usualPipePages)
	default:
		return well("%s is %d", pipePages, pages)
	}
}

func memoryIsLeft(f *Facts) result {
	if f.Process.Err != nil {
		return unknown(f.Process.Err)
	}
	m := f.Process.Value.Memory
	if m.Kills > 0 {
		return wrong("", "the OOM killer ended %d processes of portald's control group", m.Kills).as(Warning)
	}
	if m.Limit == 0 {
		return well("no limit of memory is set")
	}
	used := int(m.Used * 100 / m.Limit)
	return full(used, fmt.Sprintf("portald's control group uses %d of %d MiB (%d %%)", m.Used>>20, m.Limit>>20, used), "")
}
