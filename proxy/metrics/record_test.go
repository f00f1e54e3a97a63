package metrics

import "github.com/portald/portald/proxy/recordtest"

var sample, stray = recordtest.Sample, recordtest.Stray

var cart = sample().Service
