package nfnl

// Counter is the name of the expression that counts packets.
const Counter = "counter"

// Packets returns what the counter among the expressions of a rule has counted, 0 if there is none.
func Packets(expressions []byte) (packets uint64, err error) {
	err = Decode(expressions, func(d *Decoder) {
		d.Do(func(one []byte) error {
			n, err := CounterPackets(one)
			packets += n
			return err
		})
	})
	return packets, err
}

// CounterPackets returns what an expression has counted, 0 if it does not count.
func CounterPackets(expression []byte) (packets uint64, err error) {
	var name string
	var data []byte
	err = Decode(expression, func(d *Decoder) {
		switch d.Type() {
		case NFTA_EXPR_NAME:
			name = d.String()
		case NFTA_EXPR_DATA:
			data = d.Bytes()
		}
	})
	if err != nil || name != Counter {
		return 0, err
	}
	err = Decode(data, func(d *Decoder) {
		if d.Type() == NFTA_COUNTER_PACKETS {
			packets = d.Uint64()
		}
	})
	return packets, err
}
