package handover

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/fxamacker/cbor/v2"

	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// kind is the first byte of a message.
type kind byte

const (
	hello kind = iota + 1
	welcome
	refusal
	begin
	sockets
	turns
	begun
	serving
	batch
	taken
	goAhead
	abort
	done

	keeps // of a keeper: see Kept
	drops
	claim
	bye

	working // of a successor, between Begun and Serving

	settles // to a keeper
	ping
)

func (k kind) String() string {
	names := [...]string{hello: "Hello", welcome: "Welcome", refusal: "Refusal", begin: "Begin", sockets: "Sockets",
		turns: "Turns", begun: "Begun", serving: "Serving", batch: "Batch", taken: "Taken", goAhead: "Go",
		abort: "Abort", done: "Done", keeps: "Kept", drops: "Dropped", claim: "Claim", bye: "Bye", working: "Working",
		settles: "Settled", ping: "Ping"}
	if int(k) < len(names) && names[k] != "" {
		return names[k]
	}
	return fmt.Sprintf("message %d", byte(k))
}

// maxMessage is the size of a message, in bytes; two flows of a connection may hold 64 KiB each. The send buffer may
// allow less: see channel.most.
const maxMessage = 192 << 10

// maxFiles is how many descriptors the kernel passes with one message (SCM_MAX_FD of include/net/scm.h).
const maxFiles = 253

// maxRest bounds the bytes that a flow has read and not yet written: one read.
const maxRest = 64 << 10

// Lists of one message are short, and what they hold takes much more memory than bytes of the message. Lists of flags,
// of drained endpoints and of what a keeper drops may be long.
var (
	decodingShort = decodingOf(4 << 10)
	decodingLong  = decodingOf(1 << 17)
)

// decodingOf refuses what no daemon sends, and lists longer than that.
func decodingOf(longest int) cbor.DecMode {
	mode, err := cbor.DecOptions{MaxNestedLevels: 16, MaxArrayElements: longest, MaxMapPairs: 1 << 10,
		IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsAllowed}.DecMode()
	if err != nil {
		panic(err) // the options do not change
	}
	return mode
}

var encoding = func() cbor.EncMode {
	mode, err := cbor.EncOptions{Time: cbor.TimeRFC3339Nano}.EncMode()
	if err != nil {
		panic(err)
	}
	return mode
}()

// encode returns a message with a body, nil for none.
func encode(k kind, body any) ([]byte, error) {
	if body == nil {
		return []byte{byte(k)}, nil
	}
	b, err := encoding.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", k, err)
	}
	return append([]byte{byte(k)}, b...), nil
}

// decode reads the body of a message.
func decode(message []byte, body any) error {
	k, decoding := kind(message[0]), decodingShort
	if k == serving || k == begun || k == drops || k == settles {
		decoding = decodingLong
	}
	if err := decoding.Unmarshal(message[1:], body); err != nil {
		return fmt.Errorf("decode %s: %v", k, err) // an io.EOF in it would mean that the other end has ended
	}
	return nil
}

// item is one of a list, as a message has it, with its descriptors.
type item struct {
	body  cbor.RawMessage
	files []int
}

func pack(body any, files ...int) (item, error) {
	b, err := encoding.Marshal(body)
	if err != nil {
		return item{}, fmt.Errorf("encode %T: %w", body, err)
	}
	return item{b, files}, nil
}

// packAll packs a list whose items have no descriptors.
func packAll[of any](all []of) ([]item, error) {
	items := make([]item, len(all))
	for i := range all {
		var err error
		if items[i], err = pack(all[i]); err != nil {
			return nil, err
		}
	}
	return items, nil
}

func bodiesOf(all []item) []cbor.RawMessage {
	bodies := make([]cbor.RawMessage, len(all))
	for i := range all {
		bodies[i] = all[i].body
	}
	return bodies
}

func filesOf(all []item) (files []int) {
	for i := range all {
		files = append(files, all[i].files...)
	}
	return files
}

// fieldsSize is more than a message has beside the items of its lists, in bytes, and bytesAtOnce what these have where
// they are several.
const (
	fieldsSize  = 512
	bytesAtOnce = maxMessage / 3
)

// firstOf is how many of the first items one message of so many bytes has room for; 0: the first has none in any.
func firstOf(all []item, most int) int {
	size, files := fieldsSize, 0
	for n := range all {
		size, files = size+len(all[n].body), files+len(all[n].files)
		if size > most || files > maxFiles || n > 0 && size > bytesAtOnce {
			return n
		}
	}
	return len(all)
}

// The messages that have lists of items: as Sockets, Turns, Begun, Batch and Kept are.
type (
	packedSockets struct{ Sockets []cbor.RawMessage }
	packedTurns   struct {
		Turns   []cbor.RawMessage
		Drained []cbor.RawMessage `cbor:",omitempty"`
	}
	packedBegun struct {
		LastID  uint64
		Drained []cbor.RawMessage
	}
	packedBatch struct {
		Conns    []cbor.RawMessage `cbor:",omitempty"`
		Sessions []cbor.RawMessage `cbor:",omitempty"`
		At       netip.AddrPort
		Records  []cbor.RawMessage `cbor:",omitempty"`
		Changes  []cbor.RawMessage `cbor:",omitempty"`
		Turns    []cbor.RawMessage `cbor:",omitempty"`
		Resume   *Socket
	}
)

// passedRecord is a Record as messages have it: they have no uintptr, which an Errno is.
type passedRecord struct {
	record.Record
	Errno uint32
}

func passedRecordOf(r *record.Record) passedRecord { return passedRecord{*r, uint32(r.Errno)} }

// MarshalCBOR implements cbor.Marshaler.
func (all Records) MarshalCBOR() ([]byte, error) {
	passed := make([]passedRecord, len(all))
	for i, r := range all {
		passed[i] = passedRecordOf(r)
	}
	return encoding.Marshal(passed)
}

// UnmarshalCBOR implements cbor.Unmarshaler.
func (all *Records) UnmarshalCBOR(b []byte) error {
	var passed []passedRecord
	if err := decodingShort.Unmarshal(b, &passed); err != nil {
		return err
	}
	for i := range passed {
		r := &passed[i].Record
		r.Errno = syscall.Errno(passed[i].Errno)
		*all = append(*all, r)
	}
	return nil
}

// errBatch is a Batch that contradicts itself.
var errBatch = errors.New("contradictory batch")

// check returns an error for a batch that cannot be restored with so many descriptors.
func (b *Batch) check(files int) error {
	for _, c := range b.Conns {
		if c == nil {
			return errBatch
		}
		for _, f := range []*splice.SavedFlow{&c.Up, &c.Down} {
			if f.InPipe < 0 || len(f.Rest) > maxRest || f.Carried < 0 {
				return fmt.Errorf("%w: connection %d holds %d and %d bytes", errBatch, c.ID, f.InPipe, len(f.Rest))
			}
		}
		if len(c.Sent) > maxRest {
			return fmt.Errorf("%w: connection %d has sent %d bytes", errBatch, c.ID, len(c.Sent))
		}
		if err := checkLife(&c.SavedLife); err != nil {
			return err
		}
	}
	for _, s := range b.Sessions {
		if s == nil {
			return errBatch
		}
		if err := checkLife(&s.SavedLife); err != nil {
			return err
		}
		if s.Local.Is4() != s.Client.Addr().Is4() || !s.Local.IsValid() {
			return fmt.Errorf("%w: session %d of %s at %s", errBatch, s.ID, s.Client, s.Local)
		}
	}
	if n := b.files(); n != files {
		return fmt.Errorf("%w: %d descriptors for %d", errBatch, files, n)
	}
	return nil
}

// scopes is how many there are.
const scopes = 2

func checkLife(s *splice.SavedLife) error {
	if !s.Client.IsValid() || !s.OriginalDst.IsValid() || int(s.Scope) >= scopes || len(s.Attempts) == 0 && !s.Waits {
		return fmt.Errorf("%w: connection %d of %s to %s in scope %d with %d attempts", errBatch, s.ID, s.Client,
			s.OriginalDst, s.Scope, len(s.Attempts))
	}
	return nil
}
