package netfilter

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/portald/portald/platform/nfnl"
)

// listTables lists the tables of nftables, including iptables-nft's, of the families that packets to Services pass.
func listTables() (out []*Table, err error) {
	conn, err := nfnl.Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	for _, f := range []struct {
		name   string
		number byte // NFPROTO_… of linux/netfilter.h
	}{{"inet", 1}, {"ip", nfnl.NFPROTO_IPV4}, {"netdev", 5}, {"ip6", nfnl.NFPROTO_IPV6}} {
		err := conn.List(nfnl.Request(nfnl.NFT_MSG_GETTABLE, nfnl.Dump, f.number, nil), func(list []byte) error {
			t := &Table{Program: NFTables, Family: f.name}
			out = append(out, t)
			return nfnl.Decode(list, func(d *nfnl.Decoder) {
				if d.Type() == nfnl.NFTA_TABLE_NAME {
					t.Name = d.String()
				}
			})
		})
		if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EOPNOTSUPP) { // no nf_tables
			return nil, fmt.Errorf("list the tables of nftables: %w", err)
		}
	}
	return out, nil
}
