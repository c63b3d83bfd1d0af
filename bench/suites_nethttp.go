package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// The tests of net/http and its neighbours reach for packages of the standard library that others can't import. These stand in for them.
var standIns = map[string]string{
	"go.mod": "module nethttp\n\ngo 1.26\n",
	"testenv/testenv.go": `package testenv

import (
	"context"
	"os/exec"
	"testing"
)

func SkipFlaky(t testing.TB, _ int) { t.Skip("flaky") }

func Builder() string { return "" }

func Command(_ testing.TB, name string, args ...string) *exec.Cmd { return exec.Command(name, args...) }

func CommandContext(_ testing.TB, ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, name, args...)
}
`,
	"nettrace/nettrace.go": "package nettrace\n\ntype LookupIPAltResolverKey struct{}\n",
	"godebug/godebug.go": `package godebug

type Setting struct{}

func New(string) Setting { return Setting{} }

func (Setting) Value() string { return "" }

func (Setting) IncNonDefault() {}
`,
	"http/proxyenv_test.go": `package http_test

import (
	"net/http"
	"os"
)

func ResetProxyEnv() {
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy", "REQUEST_METHOD"} {
		os.Unsetenv(name)
	}
	http.ResetCachedEnvironment()
}
`,
}

// standInFor are the imports that are changed.
var standInFor = strings.NewReplacer(
	`"internal/testenv"`, `"nethttp/testenv"`, `"internal/nettrace"`, `"nethttp/nettrace"`, `"internal/godebug"`, `"nethttp/godebug"`,
	`"internal/synctest"`, `"testing/synctest"`,
	`"net/http/internal"`, `"nethttp/inner"`, `"net/http/internal/`, `"nethttp/inner/`)

// clientServerChanges let the tests have a server that is not net/http's: what they configure of HTTP/2 there it has by itself.
var clientServerChanges = [][2]string{
	{"	if mode == http2UnencryptedMode {\n		p := &Protocols{}\n		p.SetUnencryptedHTTP2(true)\n		cst.ts.Config", "	elsewhere := os.Getenv(\"" + servedByKnot + "\") != \"\" && cst.li == nil\n	if mode == http2UnencryptedMode && !elsewhere {\n		p := &Protocols{}\n		p.SetUnencryptedHTTP2(true)\n		cst.ts.Config"},
	{"		ExportHttp2ConfigureServer(cst.ts.Config, nil)\n", "		if cst.ts.EnableHTTP2 = elsewhere; !elsewhere {\n			ExportHttp2ConfigureServer(cst.ts.Config, nil)\n		}\n"},
	{"		cst.ts.TLS = cst.ts.Config.TLSConfig\n", "		if !elsewhere {\n			cst.ts.TLS = cst.ts.Config.TLSConfig\n		}\n"},
}

// copyNetHTTP makes a module of the tests of net/http that are not in the package itself, of httputil and of net/rpc.
func (r *run) copyNetHTTP(folder string) error {
	from, err := r.netHTTP()
	if err != nil {
		return err
	}
	for name, text := range standIns {
		name = filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, []byte(text), 0o666)); err != nil {
			return err
		}
	}
	for part, to := range map[string]string{"testdata": "http/testdata", "internal": "inner", "httputil": "httputil", "../rpc": "rpc"} {
		if err := os.CopyFS(filepath.Join(folder, to), os.DirFS(filepath.Join(from, part))); err != nil {
			return err
		}
	}
	tests, err := filepath.Glob(filepath.Join(from, "*_test.go"))
	if err != nil {
		return err
	}
	for _, test := range tests {
		text, err := os.ReadFile(test)
		if err != nil {
			return err
		}
		if bytes.Contains(text, []byte("\npackage http_test\n")) {
			if err := os.WriteFile(filepath.Join(folder, "http", filepath.Base(test)), text, 0o666); err != nil {
				return err
			}
		}
	}
	var files []string
	for _, pattern := range []string{"http/*.go", "httputil/*.go", "rpc/*.go", "inner/*.go", "inner/*/*.go"} {
		found, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return err
		}
		files = append(files, found...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		switch {
		case err != nil:
		case strings.HasPrefix(filepath.Base(file), "example_"), strings.Contains(file, "/inner/") && strings.HasSuffix(file, "_test.go"):
			err = os.Remove(file)
		default:
			err = os.WriteFile(file, []byte(standInFor.Replace(string(text))), 0o666)
		}
		if err != nil {
			return err
		}
	}
	server := filepath.Join(folder, "http/clientserver_test.go")
	return copyChanged(server, server, clientServerChanges)
}
