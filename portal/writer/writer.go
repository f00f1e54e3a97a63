// Package writer has the parts that Writers of portals share: Options, settings that change while they are in use
// (Live), whether it is known what is installed on the host (State), the Drift between that and what was written, and
// Families, which has the steps of each address family done alike. It does not know any facility of the host.
//
// A new Writer of rules embeds Families and says what to do for one family:
//
//	families, err := writer.Open(o, func(ip inet.Family) (writer.Family, error) {
//		return writer.Family{IP: ip, Replace: t.replace, Update: t.update, Audit: t.audit, ...}, nil
//	})
package writer
