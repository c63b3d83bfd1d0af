package main

import (
	"flag"
	"io"
	"reflect"
	"regexp"
	"slices"

	"github.com/pelletier/go-toml/v2"
)

// masked stands for a secret. Knot refuses it where a secret is wanted: it is too short.
const masked = "(masked)"

// secretName are keys, and names of header lines and variables, whose values may be secrets.
var secretName = regexp.MustCompile(`(?i)authorization|cookie$|secret|token|passw|api[-_]?key`)

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
		tables["listen"] = plain(reflect.ValueOf(set.listens), "")
	}
	if set.hasSites {
		tables["site"] = plain(reflect.ValueOf(set.sites), "")
	}
	return e.Encode(tables)
}

// plain is v without Go's types, zero fields and secrets. name is the key whose value v is.
func plain(v reflect.Value, name string) any {
	switch v.Kind() {
	case reflect.Pointer:
		return plain(v.Elem(), name)
	case reflect.Struct:
		table := make(map[string]any)
		addFields(table, v)
		return table
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Struct {
			return v.Interface()
		}
		all := make([]any, v.Len())
		for i := range all {
			all[i] = plain(v.Index(i), name)
		}
		return all
	case reflect.Map:
		table := make(map[string]any)
		for _, key := range v.MapKeys() {
			if table[key.String()] = plain(v.MapIndex(key), key.String()); name == "headers" || name == "cookies" {
				table[key.String()] = masked // what a request shows to get in
			}
		}
		return table
	case reflect.String:
		if secretName.MatchString(name) {
			return masked
		}
	}
	return v.Interface()
}

func addFields(table map[string]any, v reflect.Value) {
	for i := range v.NumField() {
		field, of := v.Type().Field(i), v.Field(i)
		name := field.Tag.Get("toml")
		switch {
		case field.Anonymous:
			addFields(table, of)
		case name != "" && name != "-" && !of.IsZero():
			key := name
			if of.Kind() == reflect.String && name != "secret" {
				key = "" // a cookie's name is none
			}
			table[name] = plain(of, key)
		}
	}
}
