package nfnl

// The kernel counts the transactions of a network namespace: the generation id. While none came but ours, the tables
// are as written.

func generationRequest() Message { return Request(NFT_MSG_GETGEN, 0, unspecified, nil) }

// Generation is the generation id, which is never 0.
func (c *Conn) Generation() (id uint32, err error) {
	err = c.List(generationRequest(), func(list []byte) error {
		return Decode(list, func(d *Decoder) {
			if d.Type() == NFTA_GEN_ID {
				id = d.Uint32()
			}
		})
	})
	return id, err
}

// Watch begins to look for transactions of other programs. The caller writes all that is ours again after it.
func (c *Conn) Watch() (err error) {
	c.verified, err = c.Generation()
	return err
}

// Wrote notes that so many transactions were ours, beside those that Commit made. If there were others, Unchanged is
// false until Verified.
func (c *Conn) Wrote(ours int) error {
	id, err := c.Generation()
	if c.verified != 0 && id == c.verified+uint32(ours) {
		c.verified = id
	} else {
		c.verified = 0
	}
	return err
}

// Unchanged tells whether no transaction but ours came since Watch or Verified, and the generation id.
func (c *Conn) Unchanged() (id uint32, same bool, err error) {
	id, err = c.Generation()
	return id, err == nil && id == c.verified, err
}

// Disturbed tells whether there were others. It costs a request and an answer.
func (c *Conn) Disturbed() bool {
	_, same, err := c.Unchanged()
	return err == nil && !same
}

// Verified takes in that the tables were as written at a generation id; 0 = that is not known.
func (c *Conn) Verified(id uint32) { c.verified = id }
