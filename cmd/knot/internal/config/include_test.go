package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// readFiles reads knot.toml of files, texts by their names, in a folder of its own, which is left out of the error.
func readFiles(t *testing.T, files map[string]string) (*File, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		testenv.Must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		testenv.Must(t, os.WriteFile(name, []byte(text), 0o644))
	}
	file, err := Read(filepath.Join(dir, "knot.toml"), []byte(files["knot.toml"]), flags, os.ReadFile)
	if err != nil {
		err = fmt.Errorf("%s", strings.ReplaceAll(err.Error(), dir+"/", ""))
	}
	return file, err
}

// TestInclude: the tables of included files follow those of the file that includes them, by the order of their names, and each key
// has the place where it stands.
func TestInclude(t *testing.T) {
	file, err := readFiles(t, map[string]string{
		"knot.toml":        "addr = ':80'\ninclude = ['tls.toml', 'sites/*.toml']\n[[site]]\nroot = '/main'\n",
		"tls.toml":         "admin = ':9090'\n[[listen]]\naddr = ':443'\n",
		"sites/b.toml":     "[[site]]\nroot = '/b'\n",
		"sites/a.toml":     "include = ['../more/inner.toml']\n[[site]]\nroot = '/a1'\n[[site]]\nroot = '/a2'\n[[site.header]]\nmatch = '/**'\n",
		"sites/.#c.toml":   "an editor's",
		"sites/d.toml.bak": "a copy",
		"more/inner.toml":  "site = [{ root = '/inner' }]\n",
	})
	testenv.Must(t, err)
	var roots []string
	for _, s := range file.Sites {
		roots = append(roots, s.Root)
	}
	testenv.EqualSlices(t, roots, []string{"/main", "/a1", "/a2", "/inner", "/b"})
	for path, place := range map[string]string{
		"site.1.root": "knot.toml:4", "site.2.root": "sites/a.toml:3", "site.3.header.1.match": "sites/a.toml:7", "site.4.root": "more/inner.toml:1", "site.5.root": "sites/b.toml:2", "site.5.hosts": "sites/b.toml:1", "listen.1.addr": "tls.toml:3",
	} {
		testenv.True(t, strings.HasSuffix(file.Lines.Of(path).String(), "/"+place), "%s is at %s, want %s", path, file.Lines.Of(path), place)
	}
	var names []string
	for _, v := range file.Values {
		names = append(names, v.Name+" "+filepath.Base(v.Place.String()))
	}
	testenv.EqualSlices(t, names, []string{"addr knot.toml:1", "admin tls.toml:1"})
}

// TestIncludeFaults: all that is wrong with files is told, with their names.
func TestIncludeFaults(t *testing.T) {
	chain := map[string]string{"knot.toml": "include = ['0.toml']"}
	for i := range mostDepth + 2 {
		chain[fmt.Sprint(i, ".toml")] = fmt.Sprintf("include = ['%d.toml']", i+1)
	}
	many := map[string]string{"knot.toml": "include = ['*.inc']"}
	for i := range mostFiles {
		many[fmt.Sprint(i, ".inc")] = ""
	}
	for _, c := range []struct {
		files map[string]string
		want  string
	}{
		{map[string]string{"knot.toml": "\ninclude = ['none.toml']"}, "knot.toml:2: include: open none.toml: no such file"},
		{map[string]string{"knot.toml": "include = ['none/*.toml']"}, "knot.toml:1: include: open none: no such file"},
		{map[string]string{"knot.toml": "include = ['*/a.toml']"}, `knot.toml:1: include: "*/a.toml"; want a file, or those of a folder`},
		{map[string]string{"knot.toml": "include = ['sites/']", "sites/a": ""}, `include: "sites/"; want a file`},
		{map[string]string{"knot.toml": "include = ['sites']", "sites/a": ""}, `include: read sites: is a directory`},
		{map[string]string{"knot.toml": "include = ['[']"}, `include: "[": syntax error in pattern`},
		{map[string]string{"knot.toml": "include = 'a'"}, "knot.toml:1:11: this is of type string; want a list of texts"},
		{map[string]string{"knot.toml": "include = ['knot.toml']"}, "knot.toml:1: include: knot.toml is read already, by knot.toml"},
		{map[string]string{"knot.toml": "include = ['a']", "a": "\ninclude = ['b']", "b": "include = ['a']"}, "b:1: include: a is read already, by knot.toml:1"},
		{map[string]string{"knot.toml": "include = ['a', 'b']\naddr = 'x'", "a": "addr = 'y'\nrot = 1", "b": "[[site]]\nrot = 1\n"}, "a:1: addr is set already, by knot.toml:2\na:2: there is no key \"rot\" here\nb:2: there is no key \"rot\" in site; did you mean root?"},
		{map[string]string{"knot.toml": "include = ['a', 'b']", "a": "x = ", "b": "y = 1"}, "a:1:1: \nb:1: there is no key \"y\" here"},
		{chain, "7.toml:1: include: 7.toml is the end of a chain of 8 files"},
		{many, "knot.toml:1: include: there are more than 1000 files"},
	} {
		_, err := readFiles(t, c.files)
		for want := range strings.SplitSeq(c.want, "\n") {
			testenv.ErrorSays(t, err, want)
		}
	}
	delete(chain, fmt.Sprint(mostDepth, ".toml"))
	chain[fmt.Sprint(mostDepth-1, ".toml")] = ""
	_, err := readFiles(t, chain)
	testenv.Check(t, err, slices.Sorted(func(yield func(string) bool) {
		for name := range chain {
			if !yield(name) {
				return
			}
		}
	}))
}
