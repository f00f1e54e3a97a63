package connlog

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/portald/portald/proxy/record"
)

const schemaFile = "../../docs/record.schema.json"

// validate compares lines of JSON with the schema.
func validate(t testing.TB, schema *jsonschema.Schema, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); err != nil {
			t.Errorf("%s%v", line, err)
		}
	}
}

func compiled(t testing.TB) *jsonschema.Schema {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// Every line that can be written is as the schema says: of each event, and of each outcome.
func TestLinesAreValid(t *testing.T) {
	schema := compiled(t)
	for _, o := range record.Outcomes() {
		for _, r := range []*record.Record{sample(), broken(), stray(), full()} {
			r.Outcome = o
			validate(t, schema, format("json", r))
		}
	}
	live := record.Live{ID: 1, Service: cart, Client: addr("10.0.0.9:1"), Start: time.Unix(0, 0)}
	open := recordOf(&live, time.Unix(9, 0))
	open.Logging.Sample = 100
	for _, e := range AllEvents() {
		var l Line
		r := Report{Event: e, Record: open}
		if e == Periodic {
			r.Progress = &Progress{Interval: Interval{MS: 1.5}}
		}
		l.FillReport(r)
		validate(t, schema, string(AppendJSON(nil, &l)))
	}
}

// The sample that deploy/check sends through Vector's program into ClickHouse is lines as they are written.
func TestSample(t *testing.T) {
	const file = "../../deploy/records/sample.json"
	udp := stray()
	udp.Outcome, udp.OriginalDst, udp.Endpoint = record.OutcomeOK, addr("[fd00:96::a]:53"), full().Endpoint
	live := record.Live{ID: 9, Service: cart, Client: addr("10.0.0.9:1"), Start: time.Unix(0, 0)}
	start := recordOf(&live, time.Unix(9, 0))
	var want []byte
	for _, r := range []Report{
		ended(sample()), ended(full()), ended(stray()), ended(udp), {Event: Start, Record: start},
	} {
		var l Line
		l.FillReport(r)
		want = AppendJSON(want, &l)
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	validate(t, compiled(t), string(got))
	if diff := cmp.Diff(string(want), string(got)); diff != "" && runtime.GOOS == "linux" { // errno is the system's
		t.Error(diff)
	}
}

// The schema refuses what no line is.
func TestSchemaRefuses(t *testing.T) {
	schema := compiled(t)
	for _, change := range []struct{ from, to string }{
		{`"event":"end",`, ``}, {`"event":"end"`, `"event":"ended"`}, {`"client":"10.0.0.9:41234"`, `"client":"10.0.0.9"`},
		{`"connect_ms":0.401`, `"connect_ms":"0.401"`}, {`"flags":""`, `"flags":"-"`}, {`"id":7`, `"id":7,"more":1`},
		{`"termination":"CD"`, `"termination":"C"`}, {`"rtt_ms":1.235,`, ``},
	} {
		text := strings.Replace(format("json", full()), change.from, change.to, 1)
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil || text == format("json", full()) {
			t.Fatalf("%+v: %v", change, err)
		}
		if schema.Validate(value) == nil {
			t.Errorf("%+v is valid", change)
		}
	}
}

// namesOf are the names of a type's fields in JSON, and of those that are always there.
func namesOf(of reflect.Type) (all, required []string) {
	for i := range of.NumField() {
		name, options, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		all = append(all, name)
		if options == "" {
			required = append(required, name)
		}
	}
	return all, required
}

// The schema has the fields of Line and of its objects, in their order.
func TestSchemaHasTheFields(t *testing.T) {
	type object struct {
		Required   []string
		Properties json.RawMessage
	}
	var schema struct {
		object
		Defs map[string]object `json:"$defs"`
	}
	text, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	for of, o := range map[reflect.Type]object{
		reflect.TypeFor[Line](): schema.object, reflect.TypeFor[Attempt](): schema.Defs["attempt"],
		reflect.TypeFor[TCP](): schema.Defs["tcp"], reflect.TypeFor[Interval](): schema.Defs["interval"],
	} {
		all, required := namesOf(of)
		if diff := cmp.Diff(all, keysOf(t, o.Properties)); diff != "" {
			t.Errorf("properties of %v (-want +got)\n%s", of, diff)
		}
		if diff := cmp.Diff(required, o.Required); diff != "" {
			t.Errorf("required of %v (-want +got)\n%s", of, diff)
		}
	}
}

// keysOf are the keys of an object, in their order.
func keysOf(t *testing.T, object json.RawMessage) (keys []string) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(object))
	if _, err := decoder.Token(); err != nil {
		t.Fatal(err)
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key.(string))
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			t.Fatal(err)
		}
	}
	return keys
}

// The table of the manual has all fields: optional ones in italics, fields of objects with their object.
func TestManualHasTheFields(t *testing.T) {
	text, err := os.ReadFile("../../docs/records.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| field | meaning |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var there, optional []string
	for row := range strings.Lines(table) {
		cell := strings.Split(row, "|")[1]
		for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cell, -1) {
			there = append(there, name[1])
		}
		for _, name := range regexp.MustCompile("\\*`([a-z_]+)`\\*").FindAllStringSubmatch(cell, -1) {
			optional = append(optional, name[1])
		}
	}
	all, required := namesOf(reflect.TypeFor[Line]())
	slices.Sort(there)
	slices.Sort(optional)
	left := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(required, name) })
	slices.Sort(all)
	slices.Sort(left)
	if diff := cmp.Diff(all, there); diff != "" {
		t.Errorf("fields of the table (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(left, optional); diff != "" {
		t.Errorf("fields in italics (-want +got)\n%s", diff)
	}
	for _, of := range []reflect.Type{reflect.TypeFor[TCP](), reflect.TypeFor[Interval]()} {
		names, _ := namesOf(of)
		for _, name := range names {
			if !strings.Contains(table, "`"+name+"`") {
				t.Errorf("%v: the table does not have %s", of, name)
			}
		}
	}
}

// The table of termination codes and flags has those of the code.
func TestManualHasTheCodes(t *testing.T) {
	text, err := os.ReadFile("../../docs/records.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| outcome | `termination` | `flags` |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	listed := map[record.Outcome]bool{}
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[1], -1) {
			o := record.Outcome(name[1])
			listed[o] = true
			want := codes[o]
			flags := regexp.MustCompile("`([A-Z,]+)`").FindStringSubmatch(cells[3] + "``")
			if !strings.Contains(cells[2], want.connected) || (flags == nil) != (want.flags == "") ||
				flags != nil && flags[1] != want.flags {
				t.Errorf("%s: %s%s, want %s, %s", o, cells[2], cells[3], want.connected, want.flags)
			}
		}
	}
	for _, o := range record.Outcomes() {
		if !listed[o] {
			t.Errorf("%s is not in the table", o)
		}
	}
}
