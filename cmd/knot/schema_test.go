package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/addresses"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/config"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/importance"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
)

// object is one of JSON.
type object = map[string]any

// docsOfPages are the keys that tables of the documents explain, by the path of their table, as site.proxy.
type docsOfPages map[string]map[string]keyDoc

type keyDoc struct{ standard, means string }

// tableNames are the tables of headings that do not name them.
var tableNames = map[string]string{"knot-proxy.md: Keys": "site.proxy", "knot-cache.md: Keys": "site.cache"}

var (
	tableName = regexp.MustCompile(`\[\[?([a-z.-]+)\]`)
	link      = regexp.MustCompile(`\[((?:[^][]|\[\[\w+\]\])*)\]\([^)]*\)`)
)

func readDocs(t *testing.T) docsOfPages {
	docs := make(docsOfPages)
	for _, page := range testenv.Need(filepath.Glob("../../docs/knot-*.md"))(t) {
		table := ""
		for line := range strings.Lines(string(testenv.Need(os.ReadFile(page))(t))) {
			if heading, ok := strings.CutPrefix(line, "## "); ok {
				table = tableNames[filepath.Base(page)+": "+strings.TrimSpace(heading)]
				if m := tableName.FindStringSubmatch(heading); m != nil {
					table = m[1]
				}
			}
			cells := strings.SplitN(strings.TrimSuffix(strings.TrimSpace(line), " |"), " | ", 3)
			if table == "" || len(cells) < 2 {
				continue
			}
			doc := keyDoc{means: strings.TrimPrefix(cells[1], "| ")} // in tables that have no defaults
			if len(cells) == 3 {
				doc = keyDoc{strings.Trim(cells[1], " |"), cells[2]}
			}
			for name := range strings.SplitSeq(strings.TrimPrefix(cells[0], "| "), ",") {
				if name, quoted := strings.CutPrefix(strings.TrimSpace(name), "`"); quoted {
					if docs[table] == nil {
						docs[table] = make(map[string]keyDoc)
					}
					docs[table][strings.TrimSuffix(name, "`")] = doc
				}
			}
		}
	}
	return docs
}

// describe adds what the documents say of a key to its schema.
func (docs docsOfPages) describe(of object, table, key string) {
	doc, ok := docs[table][key]
	if !ok {
		return
	}
	text := link.ReplaceAllString(doc.means, "$1")
	if doc.standard != "required" && doc.standard != "" {
		text += ". Default: " + link.ReplaceAllString(doc.standard, "$1")
	}
	of["description"] = text
}

// schemaOf is the schema of a type of the configuration, whose table has that path.
func (docs docsOfPages) schemaOf(t reflect.Type, path string) object {
	switch t.Kind() {
	case reflect.Pointer:
		return docs.schemaOf(t.Elem(), path)
	case reflect.String:
		if known := enums[path]; known != nil {
			return object{"type": "string", "enum": known}
		}
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int:
		return object{"type": "integer"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice:
		return object{"type": "array", "items": docs.schemaOf(t.Elem(), path)}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": object{"type": "string"}}
	case reflect.Struct:
		properties, required := object{}, []string{}
		docs.addFields(t, path, properties, &required)
		of := object{"type": "object", "additionalProperties": false, "properties": properties}
		if len(required) > 0 {
			of["required"] = required
		}
		return of
	}
	panic(t.String())
}

func (docs docsOfPages) addFields(t reflect.Type, path string, properties object, required *[]string) {
	for i := range t.NumField() {
		field := t.Field(i)
		if field.Anonymous {
			docs.addFields(field.Type, path, properties, required)
			continue
		}
		key := field.Tag.Get("toml")
		if key == "-" {
			continue
		}
		of := docs.schemaOf(field.Type, path+"."+key)
		docs.describe(of, path, key)
		properties[key] = of
		if docs[path][key].standard == "required" {
			*required = append(*required, key)
		}
	}
}

// enums are the values of keys that have few; Knot refuses all others.
var enums = map[string][]string{
	"log-format": {"combined", "common", "json"}, "poller": {"epoll", "uring"}, "tls-min": {"1.2", "1.3"},
	"site.log-format": {"combined", "common", "json"}, "site.satisfy": {"all", "any"}, "site.access.action": {"allow", "deny"},
	"site.client-certificate.mode": {"require", "ask"}, "site.proxy.forwarded": {"x-forwarded", "forwarded", "both", "none"},
}

// schemaOfFlag is that of a key of the top level.
func schemaOfFlag(f *flag.Flag) object {
	of := object{"type": "string"}
	switch v := f.Value.(type) {
	case *list:
		of = object{"type": []string{"string", "array"}, "items": object{"type": "string"}}
	case flag.Getter:
		switch v.Get().(type) {
		case bool:
			of["type"] = "boolean"
		case int:
			of["type"] = "integer"
		case float64:
			of["type"] = "number"
		}
	}
	if known := enums[f.Name]; known != nil {
		of["enum"] = known
	}
	of["description"] = strings.ReplaceAll(f.Usage, "`", "")
	return of
}

// TestSchema: the schema is that of the flags, the structs and the documents. With -update it is written.
func TestSchema(t *testing.T) {
	docs := readDocs(t)
	properties := object{
		"include":    object{"type": "array", "items": object{"type": "string"}, "description": `further files, and patterns for the files of a folder, as "sites/*.toml", looked up from the folder of this one`},
		"listen":     object{"type": "array", "items": docs.schemaOf(reflect.TypeFor[addresses.Listen](), "listen"), "description": "addresses, each with its sites"},
		"importance": object{"type": "array", "items": docs.schemaOf(reflect.TypeFor[importance.Config](), "importance"), "description": "how important requests are that say nothing of it; the first table for a request counts"},
		"site":       object{"type": "array", "items": docs.schemaOf(reflect.TypeFor[config.Site](), "site"), "description": "sites, each with its hosts"},
	}
	(&settings{server: new(knot.Server)}).flags().VisitAll(func(f *flag.Flag) {
		if !slices.Contains(notInConfig, f.Name) {
			properties[f.Name] = schemaOfFlag(f)
		}
	})
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	testenv.Must(t, e.Encode(object{
		"$schema": "http://json-schema.org/draft-07/schema#", "title": "Configuration of Knot", "type": "object", "additionalProperties": false, "properties": properties,
	}))
	for _, name := range []string{"knot-config.schema.json", "../../docs/knot-config.schema.json"} {
		if testenv.Updating() {
			testenv.Must(t, os.WriteFile(name, text.Bytes(), 0o644))
		}
		if !bytes.Equal(testenv.Need(os.ReadFile(name))(t), text.Bytes()) {
			t.Errorf("%s is not that of the code and the documents; write it with go test ./cmd/knot -run TestSchema -update", name)
		}
	}
	for _, table := range []string{"site", "site.proxy", "site.cache", "site.header", "site.limit", "site.access", "listen"} {
		testenv.AtLeast(t, len(docs[table]), 4, "keys of %s that are explained", table)
	}
}

// validate reports what the schema has against a configuration.
func validate(t *testing.T, text string) error {
	t.Helper()
	var doc any
	if err := toml.Unmarshal([]byte(text), &doc); err != nil {
		return err
	}
	plain := testenv.Need(jsonschema.UnmarshalJSON(bytes.NewReader(testenv.Need(json.Marshal(doc))(t))))(t)
	return compiledSchema(t).Validate(plain)
}

func compiledSchema(t *testing.T) *jsonschema.Schema {
	c := jsonschema.NewCompiler()
	testenv.Must(t, c.AddResource("knot.json", testenv.Need(jsonschema.UnmarshalJSON(strings.NewReader(schema)))(t)))
	return testenv.Need(c.Compile("knot.json"))(t)
}

// TestConfigurationsFollowTheSchema: those of the documents and of the tests of knot import do.
func TestConfigurationsFollowTheSchema(t *testing.T) {
	checked := 0
	check := func(name, text string) {
		testenv.Check(t, validate(t, text), name)
		checked++
	}
	for _, page := range testenv.Need(filepath.Glob("../../docs/knot-*.md"))(t) {
		for _, part := range strings.Split(string(testenv.Need(os.ReadFile(page))(t)), "```toml\n")[1:] {
			text, _, _ := strings.Cut(part, "```")
			if strings.Contains(text, "[[site]]") { // else a part of one
				check(page, text)
			}
		}
	}
	for _, name := range testenv.Need(filepath.Glob("internal/nginxconf/testdata/*.toml"))(t) {
		check(name, string(testenv.Need(os.ReadFile(name))(t)))
	}
	testenv.AtLeast(t, checked, 30, "configurations")
}

// TestSchemaRefuses mistakes that Knot refuses too.
func TestSchemaRefuses(t *testing.T) {
	site := "[[site]]\nroot = '" + sampleSite + "'\n"
	for _, text := range []string{
		"adr = ':80'\n" + site, "addr = 80\n" + site, "quiet = 'x'\n" + site, "loops = 'y'\n" + site, "log-format = 'xml'\n" + site, "tls-min = '1.1'\n" + site, "include = 'a'\n" + site,
		"[site]\nroot = '/srv'\n", "[[site]]\nrot = '/srv'\n", "[[site]]\nroot = 5\n", "[[site]]\nhosts = 'a'\n", site + "listing = 'yes'\n", site + "satisfy = 'some'\n",
		site + "[[site.header]]\nmatch = '/**'\nset = ['a']\n", site + "[[site.redirect]]\npth = '/a'\n", site + "[[site.access]]\naction = 'refuse'\n",
		site + "[[site.proxy]]\nto = ['unix:/s']\ncheck = { pat = '/' }\n", site + "[[site.proxy]]\nmatch = '/x'\n", site + "[[site.proxy]]\nto = ['unix:/s']\nweights = ['a']\n",
		site + "[[site.proxy]]\nto = ['unix:/s']\nforwarded = 'z'\n", site + "[site.maintenance]\nallow = []\n", "[[listen]]\n" + site,
	} {
		if validate(t, text) == nil {
			t.Errorf("the schema has nothing against %q", text)
		}
		var out testenv.Buffer
		testenv.Equal(t, checkCommand([]string{configFile(t, "%s", text)}, nil, &out, &out), exitFailed, "knot check of %q: %s", text, &out)
	}
	var out bytes.Buffer
	testenv.Equal(t, schemaCommand(nil, nil, &out, io.Discard), exitOK)
	testenv.Equal(t, out.String(), schema)
	testenv.Equal(t, schemaCommand([]string{"x"}, nil, io.Discard, io.Discard), exitUsage)
}
