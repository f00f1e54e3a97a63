package config

// draft is a configuration that is being made from file and flags.
type draft struct {
	documents
	problems
	anySystem bool // modes and writers of other systems are valid too
}

func newDraft(system string) *draft {
	return &draft{documents: documents{system: system}, problems: problems{flags: map[string]bool{}}}
}

// use starts from the contents of a file.
func (d *draft) use(f *file) {
	d.file, d.kubeProxy, d.portald = f, f.kubeProxy, f.portald
	d.warnings = append(d.warnings, f.warnings...)
	d.errs = append(d.errs, f.errs...)
}

// config is the configuration of a draft without errors.
func (d *draft) config() *Config {
	c := d.resolve()
	if d.file != nil {
		c.text = d.file.text
	}
	return c
}
