package platform

// XTablesSize is how much a table of iptables-legacy holds.
type XTablesSize struct{ Entries, Bytes uint32 }
