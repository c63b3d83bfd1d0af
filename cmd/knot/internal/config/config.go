// Package config reads the configuration file of command knot: TOML (toml.io), whose top level has
// the names of the command's flags, and a table for each site. It reports everything that is wrong
// with a file by line, and names the nearest key for one that it does not know. It reads and
// checks; what values mean is for the command.
package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/access"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/addresses"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/bodies"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/cache"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/clientcert"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/compression"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/forwardauth"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/headers"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/importance"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/limit"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/maintenance"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/redirect"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/rewrite"
	"github.com/capriccio-go/capriccio/internal/flaghelp"
)

// A File is what a configuration file says.
type File struct {
	// Values of flags, as text.
	Values  []Value
	Listens []addresses.Listen
	Sites   []Site
	Lines   Lines

	Importance []importance.Config
}

// A Value is the value of a flag.
type Value struct {
	Name, Text string
	Place      Place
}

// A Site is a table [[site]].
type Site struct {
	Name              string               `toml:"name"`
	Hosts             []string             `toml:"hosts"`
	Root              string               `toml:"root"`
	Index             []string             `toml:"index"`
	Listing           bool                 `toml:"listing"`
	ListingMax        int                  `toml:"listing-max"`
	Fallback          string               `toml:"fallback"`
	Try               []string             `toml:"try"`
	Compress          *bool                `toml:"compress"`
	MaxRanges         int                  `toml:"max-ranges"`
	Rate              string               `toml:"rate"`
	RateAfter         string               `toml:"rate-after"`
	RequestsPerSecond float64              `toml:"requests-per-second"`
	Burst             float64              `toml:"burst"`
	MaxClients        int                  `toml:"max-clients"`
	ErrorPages        map[string]string    `toml:"error-pages"`
	MaxBody           string               `toml:"max-body"`
	Bodies            []bodies.Config      `toml:"body"`
	Redirects         []redirect.Config    `toml:"redirect"`
	Rewrites          []rewrite.Config     `toml:"rewrite"`
	Limits            []limit.Config       `toml:"limit"`
	Access            []access.Config      `toml:"access"`
	ForwardAuths      []forwardauth.Config `toml:"forward-auth"`
	Satisfy           string               `toml:"satisfy"`
	ClientCerts       *clientcert.Config   `toml:"client-certificate"`
	Headers           []headers.Config     `toml:"header"`
	HSTS              string               `toml:"hsts"`
	CSP               string               `toml:"csp"`
	CORS              []headers.CORS       `toml:"cors"`
	Passwords         []Password           `toml:"password"`
	Proxies           []Proxy              `toml:"proxy"`
	Caches            []cache.Config       `toml:"cache"`

	Maintenance *maintenance.Config `toml:"maintenance"`
	Log         string              `toml:"log"`        // file of the access log of this site; "": that of all
	LogFormat   string              `toml:"log-format"` // combined, common or json; "": that of the top level
	RequestID   string              `toml:"request-id"` // header line with the id of a request; "": there are no ids
	// LoadReport is on-request, always or off, which "" is too: whether responses say how loaded the server is.
	LoadReport string `toml:"load-report"`
}

// A Proxy is a table [[site.proxy]]. Durations are texts.
type Proxy struct {
	Match           string   `toml:"match"`
	Except          []string `toml:"except"`
	Missing         bool     `toml:"missing"`
	To              []string `toml:"to"`
	Strip           string   `toml:"strip"`
	Host            string   `toml:"host"`
	Forwarded       string   `toml:"forwarded"`
	Trust           []string `toml:"trust"`
	ConnectTimeout  string   `toml:"connect-timeout"`
	ResponseTimeout string   `toml:"response-timeout"`
	IdleTimeout     string   `toml:"idle-timeout"`
	TotalTimeout    string   `toml:"total-timeout"`
	TunnelTimeout   string   `toml:"tunnel-timeout"`
	QueueTimeout    string   `toml:"queue-timeout"`
	KeepTimeout     string   `toml:"keep-timeout"`
	FailTime        string   `toml:"fail-time"`
	MaxConns        int      `toml:"max-conns"`
	Queue           int      `toml:"queue"`
	KeepConns       int      `toml:"keep-conns"`
	Tries           int      `toml:"tries"`
	MaxFails        int      `toml:"max-fails"`
	HTTP2           bool     `toml:"http2"`
	Refresh         string   `toml:"refresh"`
	TLS             *TLS     `toml:"tls"`
	Check           *Check   `toml:"check"`
	FastCGI         *FastCGI `toml:"fastcgi"`
	Balancing

	Compress *compression.Config `toml:"compress"`
	// Intercept are statuses of responses, "404" or "5xx", that the error pages of the site take the place of; none: no status.
	Intercept []string `toml:"intercept"`
}

// A TLS is a table site.proxy.tls.
type TLS struct {
	CA         string `toml:"ca"`
	ServerName string `toml:"server-name"`
	Insecure   bool   `toml:"insecure"`
}

// A Check is a table site.proxy.check.
type Check struct {
	Path    string `toml:"path"`
	Host    string `toml:"host"`
	Every   string `toml:"every"`
	Timeout string `toml:"timeout"`
	Fall    int    `toml:"fall"`
	Rise    int    `toml:"rise"`
}

// A FastCGI is a table site.proxy.fastcgi.
type FastCGI struct {
	Root      string            `toml:"root"`
	Index     string            `toml:"index"`
	Split     string            `toml:"split"`
	Set       map[string]string `toml:"set"`
	AnyScript bool              `toml:"any-script"`
}

// A Password is a table [[site.password]].
type Password struct {
	Match string `toml:"match"`
	Realm string `toml:"realm"`
	Users string `toml:"users"`
}

// document is what the decoder fills in; the rest of the top level is for flags.
type document struct {
	Include []string           `toml:"include"`
	Listens []addresses.Listen `toml:"listen"`
	Sites   []Site             `toml:"site"`

	Importance []importance.Config `toml:"importance"`
}

// Read reads the text of the file called name, and the files that it includes, by include. flags are the names that the top level
// may have besides site, listen, importance and include. The error has a line for each thing that is wrong. The File is nil if the grammar of
// the text is.
func Read(name string, text []byte, flags []string, include func(name string) ([]byte, error)) (*File, error) {
	r := &reader{file: &File{Lines: make(Lines)}, flags: flags, include: include, read: make(map[string]Place)}
	if err := r.take(name, text, 0); err != nil {
		return nil, err
	}
	return r.file, errors.Join(r.errs...)
}

// A reader reads a configuration of several files.
type reader struct {
	file    *File
	flags   []string
	include func(name string) ([]byte, error)
	read    map[string]Place // where each file was included, by absolute path
	errs    []error
}

// take adds the text of a file. depth is the number of files that include it in a chain. The error is about its grammar.
func (r *reader) take(name string, text []byte, depth int) error {
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // some editors put that there
	var doc document
	d := toml.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(&doc)
	var unknown *toml.StrictMissingError
	if err != nil && !errors.As(err, &unknown) {
		return wrong(name, err)
	}
	var all map[string]any
	if err := toml.Unmarshal(text, &all); err != nil {
		return wrong(name, err)
	}
	if unknown != nil {
		for i := range unknown.Errors {
			line, _ := unknown.Errors[i].Position()
			r.unknown(unknown.Errors[i].Key(), Place{name, line}, all)
		}
	}
	f := r.file
	lines := make(Lines)
	lines.add(name, text, map[string]int{"site": len(f.Sites), "listen": len(f.Listens), "importance": len(f.Importance)})
	r.otherCase(lines)
	f.Sites, f.Listens = append(f.Sites, doc.Sites...), append(f.Listens, doc.Listens...)
	f.Importance = append(f.Importance, doc.Importance...)
	place := func(table string, before, all int) { // of an array in one line the tables have no places
		for i := before + 1; i <= all; i++ {
			key := fmt.Sprint(table, ".", i)
			lines[key] = lines.Of(key)
		}
	}
	place("site", len(f.Sites)-len(doc.Sites), len(f.Sites))
	place("listen", len(f.Listens)-len(doc.Listens), len(f.Listens))
	place("importance", len(f.Importance)-len(doc.Importance), len(f.Importance))
	maps.Copy(f.Lines, lines)
	if at, is := lines["include"]; is {
		r.includes(name, doc.Include, at, depth+1)
	}
	return nil
}

// otherCase notes the keys that are there in other letters alone, as Root: the decoder takes them for root, and TOML does not.
func (r *reader) otherCase(lines Lines) {
	for _, path := range slices.Sorted(maps.Keys(lines)) {
		key := slices.DeleteFunc(strings.Split(path, "."), func(part string) bool { return strings.Trim(part, "0123456789") == "" })
		if len(key) == 0 {
			continue
		}
		last := key[len(key)-1]
		known := keysOf(reflect.TypeFor[document](), key[:len(key)-1])
		if !slices.Contains(known, last) && slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, last) }) {
			r.errs = append(r.errs, fmt.Errorf("%s: %s", lines[path], unknownKey(key, r.flags)))
		}
	}
}

// unknown takes up a key of the top level that is a flag's, or notes that there is no such key.
func (r *reader) unknown(key []string, at Place, all map[string]any) {
	note := func(err any) { r.errs = append(r.errs, fmt.Errorf("%s: %v", at, err)) }
	if len(key) != 1 || !slices.Contains(r.flags, key[0]) {
		note(unknownKey(key, r.flags))
		return
	}
	value, err := textOf(all[key[0]])
	if err != nil {
		note(fmt.Sprintf("%s: %v", key[0], err))
	}
	if i := slices.IndexFunc(r.file.Values, func(v Value) bool { return v.Name == key[0] }); i >= 0 {
		note(fmt.Sprintf("%s is set already, by %s", key[0], r.file.Values[i].Place))
		return
	}
	r.file.Values = append(r.file.Values, Value{key[0], value, at})
}

// textOf is a value as it would stand behind a flag.
func textOf(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case []any: // of texts, for flags that take several by commas
		parts := make([]string, len(v))
		for i := range v {
			text, ok := v[i].(string)
			if !ok || strings.Contains(text, ",") {
				return "", errors.New("want a list of texts without commas")
			}
			parts[i] = text
		}
		return strings.Join(parts, ","), nil
	}
	return "", errors.New("want a text, a number, true or false")
}

var goType = regexp.MustCompile(`cannot decode TOML (\S+) into (?:struct field \S+|\S+ value) of type (.+)`)

var plainTypes = map[string]string{
	"string": "a text", "bool": "true or false", "*bool": "true or false", "int": "a whole number", "float64": "a number",
	"[]string": "a list of texts", "[]int": "a list of whole numbers", "map[string]string": "a table of texts",
}

// wrong reports where err is, without the words of Go's types.
func wrong(name string, err error) error {
	text := strings.TrimPrefix(err.Error(), "toml: ")
	if m := goType.FindStringSubmatch(text); m != nil {
		text = fmt.Sprintf("this is of type %s; want %s", m[1], cmp.Or(plainTypes[m[2]], tableOf(m[2])))
	}
	if strings.HasPrefix(text, "cannot assign boolean") {
		text = "this is of type boolean; want another type"
	}
	if strings.Contains(text, "cannot store a table in a slice") {
		text = "this table may be there several times: write its name in two brackets, as [[site]]"
	}
	var at *toml.DecodeError
	if errors.As(err, &at) {
		line, column := at.Position()
		return fmt.Errorf("%s:%d:%d: %s", name, line, column, text)
	}
	return fmt.Errorf("%s: %s", name, text)
}

// tableOf says how a value of a Go type that is no plain one is written.
func tableOf(goType string) string {
	if strings.HasPrefix(goType, "[]") {
		return "tables, each below its name in two brackets, as [[site]] or [[site.proxy]]"
	}
	return "a table: { key = value, … }"
}

// unknownKey is the error that there is no such key, and what may have been meant.
func unknownKey(key, flags []string) string {
	known := append(keysOf(reflect.TypeFor[document](), nil), flags...)
	place := "here"
	if len(key) > 1 {
		known, place = keysOf(reflect.TypeFor[document](), key[:len(key)-1]), "in "+strings.Join(key[:len(key)-1], ".")
	}
	last := key[len(key)-1]
	text := fmt.Sprintf("there is no key %q %s", last, place)
	if near := flaghelp.Nearest(last, known); near != "" {
		return text + fmt.Sprintf("; did you mean %s?", near)
	}
	if len(key) > 1 && len(known) > 0 {
		return text + "; there are " + strings.Join(known, ", ")
	}
	return text
}

// keysOf are the keys of the table at path in t.
func keysOf(t reflect.Type, path []string) (names []string) {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for f := range t.NumField() {
		tag := t.Field(f).Tag.Get("toml")
		if t.Field(f).Anonymous {
			of := keysOf(t.Field(f).Type, path)
			if len(path) > 0 && of != nil {
				return of
			}
			names = append(names, of...)
			continue
		}
		if len(path) > 0 && tag == path[0] {
			return keysOf(t.Field(f).Type, path[1:])
		}
		if tag != "-" {
			names = append(names, tag)
		}
	}
	if len(path) > 0 {
		return nil
	}
	return names
}
