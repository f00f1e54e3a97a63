package admin

import "github.com/portald/portald/proxy/splice/splicetest"

var record, stray = splicetest.Record, splicetest.Stray

var cart = record().Service
