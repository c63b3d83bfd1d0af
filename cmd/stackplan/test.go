package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/plan"
)

// runTest tests one package after another: each test binary is a program of its own,
// with a plan of its own.
func runTest(set *settings) (int, error) {
	paths, err := set.tested()
	if err != nil {
		return exitFailed, err
	}
	code := exitOK
	for _, path := range paths {
		failed, err := set.testOne(path)
		if err != nil {
			return exitFailed, fmt.Errorf("%s: %w", path, err)
		}
		if failed {
			code = exitFound
		}
	}
	return code, nil
}

// tested lists the packages; those without tests are said as go test does.
func (set *settings) tested() ([]string, error) {
	args := append([]string{"list", "-json=ImportPath,TestGoFiles,XTestGoFiles"}, set.buildFlags()...)
	cmd := plan.GoCommand(set.ctx, append(args, set.patterns...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %s", strings.TrimSpace(stderr.String()))
	}
	var paths []string
	for dec := json.NewDecoder(bytes.NewReader(text)); dec.More(); {
		var p struct {
			ImportPath                string
			TestGoFiles, XTestGoFiles []string
		}
		if err := dec.Decode(&p); err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
			fmt.Fprintf(set.stdout, "?   \t%s\t[no test files]\n", p.ImportPath)
			continue
		}
		paths = append(paths, p.ImportPath)
	}
	return paths, nil
}

func (set *settings) testOne(path string) (failed bool, err error) {
	r, err := set.rewriteProgram([]string{path}, true)
	if err != nil {
		return false, err
	}
	file, remove, err := set.overlay(r, strings.ReplaceAll(path, "/", "_"))
	defer remove()
	if err != nil {
		return false, err
	}
	if set.verbose {
		set.tell(r)
	}
	code, err := set.goCommand(set.goTest(file, path))
	switch {
	case err != nil:
		return false, err
	case code < 0:
		return true, errors.New("go test was ended by a signal")
	}
	return code != 0, nil
}

// goTest is the command line of go test for a package. The package comes before the flags of the user: go test takes what follows -args,
// or a flag of the test binary that go test does not know, for arguments of the test binary.
func (set *settings) goTest(overlay, path string) []string {
	return slices.Concat([]string{"test", "-overlay=" + overlay}, set.buildFlags(), []string{path}, set.goFlags)
}
