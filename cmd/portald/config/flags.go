package config

import (
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/spf13/pflag"
)

// Flags are the command line: defined by NewFlags, parsed by the command, and completed to a Config.
type Flags struct {
	File     string // --config
	WriteTo  string // --write-config-to: write the configuration there and end
	Cleanup  bool   // --cleanup: remove all rules and end
	InitOnly bool   // --init-only: do what needs root alone and end
	TakeOver bool   // --take-over: start a daemon that takes over from the one that runs

	AnySystem bool // accept the modes and writers of all systems: nothing of this one is changed

	healthPort, metricsPort uint16
	sections                []Section
	values                  documents // what flags set

	refused atomic.Bool // the file that is followed
}

// Section is a group of flags in help.
type Section struct {
	Title string
	Flags *pflag.FlagSet
}

// NewFlags defines all flags, with the defaults of what they set.
func NewFlags() *Flags { return newFlags(runtime.GOOS) }

// newFlags are the flags of the daemon on a system.
func newFlags(system string) *Flags {
	f := &Flags{values: documents{system: system}}
	f.values.setDefaults()
	f.sections = []Section{newSection("Configuration", f.defineOwn)}
	for _, t := range topics() {
		f.sections = append(f.sections, newSection(t.title, func(set *pflag.FlagSet) {
			for _, s := range t.settings {
				if s.flag != "" {
					define(set, s, f.values.at(s))
				}
			}
		}))
	}
	return f
}

func newSection(title string, define func(*pflag.FlagSet)) Section {
	set := pflag.NewFlagSet(title, pflag.ContinueOnError)
	set.SortFlags = false
	define(set)
	return Section{title, set}
}

// defineOwn defines the flags that are not settings.
func (f *Flags) defineOwn(set *pflag.FlagSet) {
	set.StringVar(&f.File, "config", "",
		"`FILE` with a KubeProxyConfiguration, a PortaldConfiguration, or both; portald follows changes of it. "+
			"With a KubeProxyConfiguration, kube-proxy's flags have no effect, except --hostname-override, --master and "+
			"the log flags. portald's own flags override the file")
	set.StringVar(&f.WriteTo, "write-config-to", "",
		"write the configuration made from file, flags and defaults to this `FILE`, and exit")
	set.BoolVar(&f.Cleanup, "cleanup", false, "remove all rules of portald from this host, and exit")
	set.BoolVar(&f.InitOnly, "init-only", false,
		"set the sysctls, which needs all capabilities of root, and exit: the daemon then needs only NET_ADMIN")
	set.BoolVar(&f.TakeOver, "take-over", false,
		"start a daemon that takes over from the one that runs on this host, and exit once it serves; if it cannot, the "+
			"one that runs goes on")
	set.Uint16Var(&f.healthPort, "healthz-port", 10256,
		"`PORT` of the health server, 0: none; replaced by --healthz-bind-address")
	set.Uint16Var(&f.metricsPort, "metrics-port", 10249,
		"`PORT` of the metrics server, 0: none; replaced by --metrics-bind-address")
	for _, deprecated := range []string{"healthz-port", "metrics-port"} {
		set.Lookup(deprecated).Hidden = true
	}
}

// Sections are all flags, in the order of help.
func (f *Flags) Sections() []Section { return f.sections }

// Refused is how many files are refused as they are now, while Follow runs: 0 or 1. It may be called at any time.
func (f *Flags) Refused() int {
	if f.refused.Load() {
		return 1
	}
	return 0
}

// Values are the values of all flags, as they were given or by default, without secrets.
func (f *Flags) Values() map[string]string {
	out := map[string]string{}
	for _, s := range f.sections {
		s.Flags.VisitAll(func(flag *pflag.Flag) { out[flag.Name] = flag.Value.String() })
	}
	return out
}

// HostSections are the flags for cleanup: all that concern the host, and the one that selects the names of chains.
func (f *Flags) HostSections() []Section {
	whose := newSection("Which portald", func(set *pflag.FlagSet) { set.AddFlag(f.lookup("service-proxy-name")) })
	host := slices.DeleteFunc(slices.Clone(f.sections), func(s Section) bool {
		return !slices.Contains(hostTopics(), s.Title)
	})
	return append([]Section{whose}, host...)
}

// given tells whether a flag is on the command line. Flag sets share the flag, which records that.
func (f *Flags) given(name string) bool {
	flag := f.lookup(name)
	return flag != nil && flag.Changed
}

func (f *Flags) lookup(name string) *pflag.Flag {
	for _, s := range f.sections {
		if flag := s.Flags.Lookup(name); flag != nil {
			return flag
		}
	}
	return nil
}
