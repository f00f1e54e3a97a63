// Package quota decides who may have how much of what the data path takes from the host: descriptors, UDP sessions,
// pipes and memory.
//
// An Account has a Budget. Who takes from it is a Client, an address that uses one Service:
//
//	s := account.Service(name)    // for a front, until s.Leave
//	c := s.Client(addr)           // for a connection, until c.Leave
//	err := c.TakeConnection()     // until c.GiveConnection
//
// A namespace may take at most namespaceShare times what is free, a Service serviceShare times what its namespace may
// still take, and so on down to the client: see share. Whoever takes all it can get leaves some for those with little,
// and the limits need no count of them (Choudhury and Hahne, Dynamic Queue Length Thresholds, 1998). Open connections
// are never ended for others. UDP sessions are evicted from whoever has the most of them.
//
// Rates has the limits that a Service sets for its own clients: connections that a client has open, and new ones a
// second.
//
// A new limit of a resource is a Resource with its number in the Budget; a new limit of a Service is one more check in
// Rates.
package quota
