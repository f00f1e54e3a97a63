package config

import "slices"

// topics are all groups of settings.
func topics() []topic {
	return append(usedTopics(), topic{"Accepted from kube-proxy, without effect", unusedSettings()})
}

// hostTopics are the titles of the groups that cleanup needs too.
func hostTopics() []string { return []string{titleHost, titleLog} }

// settings returns the settings of all topics.
func settings() []setting {
	var out []setting
	for _, t := range topics() {
		out = append(out, t.settings...)
	}
	return out
}

// settingOf is the setting of a path.
func settingOf(path string) setting {
	all := settings()
	return all[slices.IndexFunc(all, func(s setting) bool { return s.path == path })]
}
