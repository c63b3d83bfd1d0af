package capriccio_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// licences are the ones that dependencies may have, each with words of its text.
var licences = map[string]string{
	"MIT":            "Permission is hereby granted, free of charge",
	"Apache 2.0":     "Apache License",
	"BSD, 2 clauses": "Redistribution and use in source and binary forms",
	"BSD, 3 clauses": "Neither the name of",
	"MPL 2.0":        "Mozilla Public License, version 2.0",
}

var (
	requirement = regexp.MustCompile(`(?m)^\t(\S+) v\S+$`) // without those that are marked as indirect
	dependency  = regexp.MustCompile(`(?m)^\| ([a-z]\S*\.\S+?)(, \S+)?(, with [^|]*)? \| ([^|]+) \| `)
)

// TestDependenciesHaveLicences compares docs/dependencies.md with go.mod and with the licences of the modules.
func TestDependenciesHaveLicences(t *testing.T) {
	licenceOf, with := map[string]string{}, map[string]string{}
	for _, row := range dependency.FindAllStringSubmatch(read(t, "docs/dependencies.md"), -1) {
		licenceOf[row[1]] = row[4]
		if other := strings.TrimPrefix(row[2], ", "); other != "" {
			licenceOf[other] = row[4]
		}
		if row[3] != "" {
			with[row[1]] = row[4]
		}
	}
	for _, r := range requirement.FindAllStringSubmatch(read(t, "go.mod"), -1) {
		module := r[1]
		licence, known := licenceOf[module]
		for whole, of := range with {
			if !known && strings.HasPrefix(module, whole+"/") {
				licence, known = of, true
			}
		}
		if !known {
			t.Errorf("docs/dependencies.md does not have %s", module)
			continue
		}
		delete(licenceOf, module)
		dir := strings.TrimSpace(testenv.Run(t, "", nil, "go", "list", "-m", "-f", "{{.Dir}}", module))
		if dir == "" {
			continue // not downloaded, as nothing that is built here imports it
		}
		text := ""
		for _, file := range glob(t, filepath.Join(dir, "LICENSE*")) {
			text += strings.Join(strings.Fields(string(testenv.Need(os.ReadFile(file))(t))), " ")
		}
		if words, may := licences[licence]; !may || !strings.Contains(text, words) {
			t.Errorf("docs/dependencies.md says that %s is under %q; its text does not, or no such licence is known to this test", module, licence)
		}
	}
	for module := range licenceOf {
		t.Errorf("docs/dependencies.md has %s, which go.mod does not require", module)
	}
}
