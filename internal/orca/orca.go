// Package orca writes and reads load reports: messages xds.data.orca.v3.OrcaLoadReport, as servers put them into responses in
// the forms that Envoy and gRPC read (Open Request Cost Aggregation). It encodes the message by hand, so that its users need no
// protobuf. It keeps nothing and never parks.
package orca

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Names of header lines, in lower case. FormatHeader is of requests: it asks for a report, and has TEXT, JSON or BIN.
const (
	FormatHeader = "endpoint-load-metrics-format"
	Header       = "endpoint-load-metrics"
	BinaryHeader = "endpoint-load-metrics-bin"
)

// Names of the metrics by which a balancer chooses: requests that the server has, waiting ones included, and how long a request
// lately took with about as many, in seconds.
const (
	InFlight = "in_flight"
	Latency  = "latency_seconds"
)

// Bounds of what Parse takes. A report beyond them is a mistake or a lie.
const (
	MaxSize        = 8 << 10 // bytes of a header value
	MaxValues      = 100     // of each of the three lists
	maxUtilisation = 100     // a server can't do a hundred times what it can
	maxValue       = 1e12
)

// A Report is a load report. Zero fields are left out.
type Report struct {
	CPU         float64 // share of the processors, 1: all
	Memory      float64 // share of the memory, up to 1
	Application float64 // share of what is scarcest, 1: no more can be done
	RPS, EPS    float64 // requests, and failed ones, in a second
	Cost        []Value // of a request, in whatever unit
	Utilisation []Value // of resources, 1: all
	Named       []Value
}

// A Value is one of a list.
type Value struct {
	Name  string
	Value float64
}

// Find returns the value of that name, and whether there is one.
func Find(list []Value, name string) (float64, bool) {
	for i := range list {
		if list[i].Name == name {
			return list[i].Value, true
		}
	}
	return 0, false
}

// A number is a field with its names and its tag in the message.
type number struct {
	name, camel string
	tag         byte
	of          func(*Report) *float64
}

var numbers = [...]number{
	{"cpu_utilization", "cpuUtilization", 1, func(r *Report) *float64 { return &r.CPU }},
	{"mem_utilization", "memUtilization", 2, func(r *Report) *float64 { return &r.Memory }},
	{"rps_fractional", "rpsFractional", 6, func(r *Report) *float64 { return &r.RPS }},
	{"eps", "eps", 7, func(r *Report) *float64 { return &r.EPS }},
	{"application_utilization", "applicationUtilization", 9, func(r *Report) *float64 { return &r.Application }},
}

// A list is a map field.
type list struct {
	name, camel string
	tag         byte
	of          func(*Report) *[]Value
}

var lists = [...]list{
	{"request_cost", "requestCost", 4, func(r *Report) *[]Value { return &r.Cost }},
	{"utilization", "utilization", 5, func(r *Report) *[]Value { return &r.Utilisation }},
	{"named_metrics", "namedMetrics", 8, func(r *Report) *[]Value { return &r.Named }},
}

// AppendText appends the report as TEXT, without Cost and Utilisation: Envoy before 1.36 refuses a text that has them.
func (r *Report) AppendText(b []byte) []byte {
	b = append(b, "TEXT "...)
	from := len(b)
	add := func(prefix, name string, v float64) {
		if len(b) > from {
			b = append(b, ',')
		}
		b = append(append(append(b, prefix...), name...), '=')
		b = strconv.AppendFloat(b, v, 'g', 6, 64)
	}
	for i := range numbers {
		if v := *numbers[i].of(r); v != 0 {
			add("", numbers[i].name, v)
		}
	}
	for _, v := range r.Named {
		add("named_metrics.", plain(v.Name), v.Value)
	}
	return b
}

// plain is a name without what separates names and values in a text.
func plain(name string) string {
	return strings.Map(func(ch rune) rune {
		if ch <= ' ' || ch >= 0x7f || ch == ',' || ch == '=' || ch == ':' {
			return '_'
		}
		return ch
	}, name)
}

// AppendJSON appends the report as JSON.
func (r *Report) AppendJSON(b []byte) []byte {
	b = append(b, "JSON {"...)
	key := func(name string) {
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = append(strconv.AppendQuoteToASCII(b, plain(name)), ':')
	}
	for i := range numbers {
		if v := *numbers[i].of(r); v != 0 {
			key(numbers[i].name)
			b = strconv.AppendFloat(b, v, 'g', 6, 64)
		}
	}
	for i := range lists {
		if all := *lists[i].of(r); len(all) > 0 {
			key(lists[i].name)
			b = append(b, '{')
			for _, v := range all {
				key(v.Name)
				b = strconv.AppendFloat(b, v.Value, 'g', 6, 64)
			}
			b = append(b, '}')
		}
	}
	return append(b, '}')
}

// AppendBinary appends the message.
func (r *Report) AppendBinary(b []byte) []byte {
	for i := range numbers {
		if v := *numbers[i].of(r); v != 0 {
			b = appendDouble(b, numbers[i].tag, v)
		}
	}
	for i := range lists {
		for _, v := range *lists[i].of(r) {
			name := v.Name[:min(len(v.Name), 100)] // so that an entry has less than 128 bytes
			b = append(b, lists[i].tag<<3|2, byte(len(name)+11), 1<<3|2, byte(len(name)))
			b = appendDouble(append(b, name...), 2, v.Value)
		}
	}
	return b
}

func appendDouble(b []byte, tag byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(append(b, tag<<3|1), math.Float64bits(v))
}

// AppendBase64 is AppendBinary in base64, as a header has it.
func (r *Report) AppendBase64(b []byte) []byte {
	return base64.StdEncoding.AppendEncode(b, r.AppendBinary(nil))
}

// Parse reads the value of a line Header, or, with binary, BinaryHeader. The error says what is wrong with it; nothing of a wrong
// report is to be used.
func Parse(value string, binary bool) (r Report, err error) {
	if len(value) > MaxSize {
		return r, fmt.Errorf("a load report of %d bytes; want %d at most", len(value), MaxSize)
	}
	form, rest, _ := strings.Cut(value, " ")
	switch {
	case binary:
		err = r.parseBase64(value)
	case form == "TEXT":
		err = r.parseText(rest)
	case form == "JSON":
		err = r.parseJSON(rest)
	case form == "BIN":
		err = r.parseBase64(rest)
	default:
		err = fmt.Errorf("a load report in the form %.10q; want TEXT, JSON or BIN", form)
	}
	if err == nil {
		err = r.check()
	}
	return r, err
}

// parseText reads numbers by names, with = or a colon between. Names that are not known are passed over.
func (r *Report) parseText(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		at := strings.IndexAny(part, "=:")
		if at < 0 {
			return fmt.Errorf("%.40q is not a name with a value", part)
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(part[at+1:]), 64)
		if err != nil {
			return fmt.Errorf("%.40q is not a name with a number", part)
		}
		r.set(strings.TrimSpace(part[:at]), v)
	}
	return nil
}

// set sets what a flat name stands for.
func (r *Report) set(name string, v float64) {
	for i := range numbers {
		if name == numbers[i].name {
			*numbers[i].of(r) = v
			return
		}
	}
	for i := range lists {
		if key, ok := strings.CutPrefix(name, lists[i].name+"."); ok {
			to := lists[i].of(r)
			*to = append(*to, Value{key, v})
			return
		}
	}
}

func (r *Report) parseJSON(text string) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		return err
	}
	for name, value := range fields {
		for i := range numbers {
			if n := &numbers[i]; name == n.name || name == n.camel {
				if err := json.Unmarshal(value, n.of(r)); err != nil {
					return err
				}
			}
		}
		for i := range lists {
			if l := &lists[i]; name == l.name || name == l.camel {
				var all map[string]float64
				if err := json.Unmarshal(value, &all); err != nil {
					return err
				}
				for key, v := range all {
					*l.of(r) = append(*l.of(r), Value{key, v})
				}
			}
		}
	}
	return nil
}

func (r *Report) parseBase64(text string) error {
	text = strings.TrimRight(text, "=") // gRPC may leave the padding out
	message, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	return r.parseBinary(message)
}

func (r *Report) parseBinary(message []byte) error {
	return eachField(message, func(tag uint64, bits uint64, inner []byte) error {
		for i := range numbers {
			if uint64(numbers[i].tag)<<3|1 == tag {
				*numbers[i].of(r) = math.Float64frombits(bits)
			}
		}
		for i := range lists {
			if uint64(lists[i].tag)<<3|2 != tag {
				continue
			}
			var v Value
			if err := eachField(inner, func(tag uint64, bits uint64, text []byte) error {
				switch tag {
				case 1<<3 | 2:
					v.Name = string(text)
				case 2<<3 | 1:
					v.Value = math.Float64frombits(bits)
				}
				return nil
			}); err != nil {
				return err
			}
			*lists[i].of(r) = append(*lists[i].of(r), v)
		}
		return nil
	})
}

var errMessage = errors.New("the message is not one of protobuf")

// eachField calls fn with each field of a message: its tag with the wire type, and its bits or bytes.
func eachField(b []byte, fn func(tag, bits uint64, inner []byte) error) error {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return errMessage
		}
		b = b[n:]
		var bits uint64
		var inner []byte
		size := 0
		switch tag & 7 {
		case 0:
			bits, size = binary.Uvarint(b)
		case 1:
			size = 8
		case 2:
			length, n := binary.Uvarint(b)
			if n <= 0 || length > uint64(len(b)-n) {
				return errMessage
			}
			b, size = b[n:], int(length)
		case 5:
			size = 4
		}
		if size > len(b) || size <= 0 && tag&7 != 2 {
			return errMessage
		}
		switch tag & 7 {
		case 1:
			bits = binary.LittleEndian.Uint64(b)
		case 2:
			inner = b[:size]
		}
		b = b[size:]
		if err := fn(tag, bits, inner); err != nil {
			return err
		}
	}
	return nil
}

// check reports what can't be true of r.
func (r *Report) check() error {
	for i := range numbers {
		most := float64(maxUtilisation)
		if n := &numbers[i]; n.tag == 6 || n.tag == 7 {
			most = maxValue
		}
		if err := within(numbers[i].name, *numbers[i].of(r), most); err != nil {
			return err
		}
	}
	for i := range lists {
		all, most := *lists[i].of(r), float64(maxValue)
		if len(all) > MaxValues {
			return fmt.Errorf("%s has %d values; want %d at most", lists[i].name, len(all), MaxValues)
		}
		if lists[i].tag == 5 {
			most = maxUtilisation
		}
		for _, v := range all {
			if err := within(lists[i].name+"."+v.Name, v.Value, most); err != nil {
				return err
			}
		}
	}
	return nil
}

func within(name string, v, most float64) error {
	if !(v >= 0 && v <= most) {
		return fmt.Errorf("%.60q is %v; want 0 to %v", name, v, most)
	}
	return nil
}

// ParseInterval reads a message xds.service.orca.v3.OrcaLoadReportRequest: how many seconds are to be between two reports; 0: it
// does not say.
func ParseInterval(message []byte) (seconds float64, err error) {
	err = eachField(message, func(tag, _ uint64, inner []byte) error {
		if tag != 1<<3|2 {
			return nil
		}
		return eachField(inner, func(tag, bits uint64, _ []byte) error {
			switch tag {
			case 1 << 3:
				seconds += float64(int64(bits))
			case 2 << 3:
				seconds += float64(int32(bits)) / 1e9
			}
			return nil
		})
	})
	return seconds, err
}
