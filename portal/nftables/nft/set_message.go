package nft

import "github.com/portald/portald/platform/nfnl"

// CreateSet is the message that creates a named set.
func (t *Table) CreateSet(s *Set) nfnl.Message {
	var a nfnl.Attributes
	a.String(nfnl.NFTA_SET_TABLE, t.Name)
	a.String(nfnl.NFTA_SET_NAME, s.Name)
	s.describe(&a)
	a.Uint32(nfnl.NFTA_SET_ID, 0)
	a.Bytes(nfnl.NFTA_SET_USERDATA, s.userdata())
	return nfnl.Request(nfnl.NFT_MSG_NEWSET, nfnl.Create, t.Family.Number, a)
}

// createAnonymous is the message that creates a set of a rule.
func (t *Table) createAnonymous(s anonymous) nfnl.Message {
	var a nfnl.Attributes
	a.String(nfnl.NFTA_SET_TABLE, t.Name)
	a.String(nfnl.NFTA_SET_NAME, s.name)
	s.describe(&a)
	a.Uint32(nfnl.NFTA_SET_ID, s.id)
	a.Nest(nfnl.NFTA_SET_DESC, func() { a.Uint32(nfnl.NFTA_SET_DESC_SIZE, uint32(len(s.elements))) })
	a.Bytes(nfnl.NFTA_SET_USERDATA, s.userdata())
	return nfnl.Request(nfnl.NFT_MSG_NEWSET, nfnl.Create, t.Family.Number, a)
}

// describe appends the set's flags and types.
func (s *Set) describe(a *nfnl.Attributes) {
	a.Uint32(nfnl.NFTA_SET_FLAGS, s.flags())
	number, size := s.Key.datatype()
	a.Uint32(nfnl.NFTA_SET_KEY_TYPE, number)
	a.Uint32(nfnl.NFTA_SET_KEY_LEN, size)
	switch {
	case s.Verdicts:
		a.Uint32(nfnl.NFTA_SET_DATA_TYPE, nfnl.NFT_DATA_VERDICT)
	case s.Data != nil:
		number, size := s.Data.datatype()
		a.Uint32(nfnl.NFTA_SET_DATA_TYPE, number)
		a.Uint32(nfnl.NFTA_SET_DATA_LEN, size)
	}
	if s.Counts {
		a.Nest(nfnl.NFTA_SET_EXPR, func() { a.String(nfnl.NFTA_EXPR_NAME, nfnl.Counter) })
	}
}

func (s *Set) flags() (flags uint32) {
	if s.Name == "" {
		flags |= nfnl.NFT_SET_ANONYMOUS | nfnl.NFT_SET_CONSTANT
	}
	if s.Dynamic {
		flags |= nfnl.NFT_SET_EVAL | nfnl.NFT_SET_TIMEOUT
	}
	if s.intervals {
		flags |= nfnl.NFT_SET_INTERVAL
	}
	if s.isMap() {
		flags |= nfnl.NFT_SET_MAP
	}
	return flags
}

// userdata is for the command nft alone: the byte order of keys, and the "typeof" of the set.
func (s *Set) userdata() (u nfnl.Userdata) {
	const none, hostEndian, bigEndian = 0, 1, 2
	switch {
	case !s.Key.anonymous():
		u.Uint32(nfnl.NFTNL_UDATA_SET_KEYBYTEORDER, bigEndian)
	case len(s.Key) == 1:
		u.Uint32(nfnl.NFTNL_UDATA_SET_KEYBYTEORDER, hostEndian)
	default:
		u.Uint32(nfnl.NFTNL_UDATA_SET_KEYBYTEORDER, none)
		u.Bytes(nfnl.NFTNL_UDATA_SET_KEY_TYPEOF, s.Key.typeof())
		if s.Data != nil {
			u.Bytes(nfnl.NFTNL_UDATA_SET_DATA_TYPEOF, s.Data.typeof())
		}
	}
	return u
}

// Description is the kernel's listing of a set that describe made, as text that can be compared.
func (s *Set) Description() string {
	var a nfnl.Attributes
	s.describe(&a)
	_, _, listed, _ := ParseSet(a) // ours are sound
	return listed.Description
}
