package main

import (
	"flag"
	"io"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// masked stands for a secret. Knot refuses it as the key secret: it is too short.
const masked = "(masked)"

// secrets are keys whose values may be secrets, by their tables: what requests show to get in, and what backends are sent.
var secrets = []string{"site.access.headers", "site.access.cookies", "site.header.backend-set", "site.proxy.fastcgi.set", "site.proxy.sticky.secret"}

// withPassword are flags whose values may be URLs with a password, or a token in the query.
var withPassword = []string{"acme-ask", "acme-storage", "limits-redis", "tls-tickets"}

// effective are the values of the flags, by name and with the type that the configuration file has them in.
func (set *settings) effective(flags *flag.FlagSet) map[string]any {
	all := make(map[string]any)
	flags.VisitAll(func(f *flag.Flag) {
		text := f.Value.String()
		switch v := f.Value.(type) {
		case *list:
			if len(*v) > 0 {
				all[f.Name] = slices.Clone(*v)
			}
			return
		case *byteSize:
			if *v == ownCache { // no text says that
				return
			}
		case flag.Getter:
			switch v := v.Get().(type) {
			case bool, int, float64:
				all[f.Name] = v
				return
			}
		}
		if strings.Contains(text, "://") && slices.Contains(withPassword, f.Name) {
			u, err := url.Parse(text)
			if text = masked; err == nil {
				if f.Name == "acme-ask" && u.RawQuery != "" { // the query of any other is settings of Knot
					u.RawQuery = "xxxxx"
				}
				text = u.Redacted()
			}
		}
		if text != "" {
			all[f.Name] = text
		}
	})
	for _, name := range notInConfig {
		delete(all, name)
	}
	if len(set.listens) > 0 {
		delete(all, "addr")
	}
	if len(set.sites) > 0 { // each has its own
		for _, name := range ofOneSite {
			delete(all, name)
		}
	}
	return all
}

// writeDump writes the configuration that set is: what the flags are, and the tables.
func (set *settings) writeDump(w io.Writer) error {
	e := toml.NewEncoder(w)
	if err := e.Encode(set.given); err != nil {
		return err
	}
	tables := make(map[string]any)
	if len(set.listens) > 0 {
		tables["listen"] = plain(reflect.ValueOf(set.listens), "listen")
	}
	if len(set.demands.tables) > 0 {
		tables["importance"] = plain(reflect.ValueOf(set.demands.tables), "importance")
	}
	if set.hasSites {
		tables["site"] = plain(reflect.ValueOf(set.sites), "site")
	}
	return e.Encode(tables)
}

// plain is v without Go's types, zero fields and secrets. path is the key whose value v is, behind those of the tables around it.
func plain(v reflect.Value, path string) any {
	switch v.Kind() {
	case reflect.Pointer:
		return plain(v.Elem(), path)
	case reflect.Struct:
		table := make(map[string]any)
		addFields(table, v, path)
		return table
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Struct {
			return v.Interface()
		}
		all := make([]any, v.Len())
		for i := range all {
			all[i] = plain(v.Index(i), path)
		}
		return all
	case reflect.Map:
		table := make(map[string]any)
		for _, key := range v.MapKeys() {
			table[key.String()] = plain(v.MapIndex(key), path)
		}
		return table
	}
	if slices.Contains(secrets, path) {
		return masked
	}
	return v.Interface()
}

func addFields(table map[string]any, v reflect.Value, path string) {
	for i := range v.NumField() {
		field, of := v.Type().Field(i), v.Field(i)
		name := field.Tag.Get("toml")
		switch {
		case field.Anonymous:
			addFields(table, of, path)
		case name != "" && name != "-" && !of.IsZero():
			table[name] = plain(of, path+"."+name)
		}
	}
}
