package nft

import (
	"crypto/sha256"

	"github.com/portald/portald/platform/nfnl"
)

// digest identifies what a rule does, its anonymous sets included. A rule carries it as userdata, by which a later run
// knows it: the kernel lists expressions otherwise than it takes them. A rule never changes, nor do its anonymous sets,
// so that the digest says what is in force. The zero value stands for a rule of another program.
type Digest [16]byte

// digestKind is the type of that userdata, which nft passes over.
const digestKind = 0x70

// Digest returns the digest of a rule whose program is p. The ids of anonymous sets have no part in it.
func (t *Table) digest(r Rule, p *program) Digest {
	if len(p.anonymous) > 0 {
		p = t.Family.encode(r, new(uint32))
	}
	hash := sha256.New()
	for _, m := range t.anonymousMessages(p) {
		hash.Write(m.Data)
	}
	hash.Write(p.expressions)
	return Digest(hash.Sum(nil)[:len(Digest{})])
}

func (d Digest) userdata() (u nfnl.Userdata) {
	u.Bytes(digestKind, d[:])
	return u
}

// ParseDigest reads what userdata has.
func ParseDigest(u nfnl.Userdata) (d Digest) {
	copy(d[:], u.Find(digestKind))
	return d
}

// Digest returns the digest of a rule in this table.
func (t *Table) Digest(r Rule) Digest { return t.digest(r, t.Family.encode(r, new(uint32))) }
