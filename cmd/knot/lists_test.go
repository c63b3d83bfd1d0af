package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A listed is a behaviour that a list of nginx-tests asks for, expressed for the same feature of Knot.
type listed struct {
	list string // of nginx-tests, without .t
	// send is METHOD and target, then header lines, and behind an empty line a body.
	send string
	// want has the status and, with " | " between, what else the response has to be: "Name: value", "Name~ part of the value", "!Name"
	// for a line that must not be there, "=body", "~part of the body", "!~part" that it must not have, and "torn" for a body that breaks off,
	// or 502.
	want string
}

// A listGroup are cases with the same configuration, in which ROOT, BACKEND and DIR are filled in.
type listGroup struct {
	name, config string
	files        map[string]string // below ROOT; a name with -> is a link
	raw          map[string]string // path → what the backend called RAW answers, byte by byte, before it ends the connection
	cases        []listed
}

func listGroups() []listGroup {
	return slices.Concat(fileLists, rewriteLists, accessLists, proxyLists, rawLists, cacheLists)
}

// TestLists runs the cases of the lists of nginx-tests, group by group, in their order.
func TestLists(t *testing.T) {
	for _, g := range listGroups() {
		t.Run(g.name, func(t *testing.T) {
			dir := t.TempDir()
			root := filepath.Join(dir, "root")
			testenv.Must(t, os.MkdirAll(root, 0o755))
			for name, text := range g.files {
				name, target, isLink := strings.Cut(name, "->")
				path := filepath.Join(root, name)
				testenv.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
				if isLink {
					testenv.Must(t, os.Symlink(target, path))
				} else {
					testenv.Must(t, os.WriteFile(path, []byte(text), 0o644))
				}
			}
			write(t, filepath.Join(dir, "users"), "ann:$2a$04$3NIZ7z58ltdXyquueprG9eIW5j2qYhsdMpO6mb52h5f/XPFhBWgO2\n") // p
			toml := strings.NewReplacer("ROOT", root, "DIR", dir, "BACKEND", testBackend(t, listBackend), "DEAD", "http://"+freePort(t), "RAW", "http://"+rawBackend(t, g.raw)).Replace(g.config)
			p := start(t, "-config", configFile(t, "%s", toml))
			for _, c := range g.cases {
				if fault := c.try(t, strings.TrimPrefix(p.url, "http://")); fault != "" {
					t.Errorf("%s: %s: %s", c.list, strings.ReplaceAll(c.send, "\n", ", "), fault)
				}
			}
			p.end()
		})
	}
}

// rawBackend answers requests for a path with a text, and then closes the connection.
func rawBackend(t *testing.T, answers map[string]string) string {
	return testenv.Serve(t, func(c net.Conn) {
		defer c.Close()
		if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			io.Copy(io.Discard, r.Body)
			io.WriteString(c, answers[r.URL.Path])
		}
	})
}

// listBackend answers as the line Say of a request wants: status and further lines with | between, and what follows = is the
// body. Without one the body tells the request.
func listBackend(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var told strings.Builder
	fmt.Fprintf(&told, "%s %s\nHost: %s\n", r.Method, r.RequestURI, r.Host)
	r.Header.WriteSubset(&told, map[string]bool{"Say": true})
	fmt.Fprintf(&told, "\n%s", body)
	answer, status := strings.ReplaceAll(told.String(), "\r\n", "\n"), 200
	for _, part := range strings.Split(r.Header.Get("Say"), "|") {
		if name, value, isLine := strings.Cut(part, ": "); strings.HasPrefix(part, "=") {
			answer = part[1:]
		} else if isLine {
			w.Header().Add(name, value)
		} else if part != "" {
			status, _ = strconv.Atoi(part)
		}
	}
	w.WriteHeader(status)
	io.WriteString(w, answer)
}

// try sends the request of a case on a connection of its own, and returns what is wrong with the response.
func (c *listed) try(t *testing.T, addr string) (fault string) {
	head, body, _ := strings.Cut(c.send, "\n\n")
	lines := strings.Split(head, "\n")
	method, _, _ := strings.Cut(lines[0], " ")
	if !strings.HasSuffix(lines[0], " HTTP/1.0") {
		lines[0] += " HTTP/1.1"
	}
	text := strings.Join(lines, "\r\n") + "\r\n"
	if !strings.Contains(text, "\r\nHost: ") {
		text += "Host: h.test\r\n"
	}
	if body != "" && !strings.Contains(text, "chunked") {
		text += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	nc := testenv.Dial(t, addr)
	defer nc.Close()
	io.WriteString(nc, text+"Connection: close\r\n\r\n"+body)
	resp, err := http.ReadResponse(bufio.NewReader(nc), &http.Request{Method: method})
	if err != nil {
		return err.Error()
	}
	got, readErr := io.ReadAll(resp.Body)
	for i, want := range strings.Split(c.want, " | ") {
		holds := listedHolds(resp, string(got), want, i == 0)
		if want == "torn" {
			holds = readErr != nil || resp.StatusCode == http.StatusBadGateway // as little or much of it had come
		} else if i == 0 && !strings.Contains(c.want, "torn") {
			holds = holds && readErr == nil
		}
		if !holds {
			return fmt.Sprintf("want %q: %s %v %.300q %v", want, resp.Status, resp.Header, got, readErr)
		}
	}
	return ""
}

// listedHolds reports whether one part of what is wanted holds.
func listedHolds(resp *http.Response, body, want string, isStatus bool) bool {
	if isStatus {
		return strings.Contains(" "+want+" ", fmt.Sprintf(" %d ", resp.StatusCode))
	}
	if part, ok := strings.CutPrefix(want, "!~"); ok {
		return !strings.Contains(body, part)
	}
	if part, ok := strings.CutPrefix(want, "~"); ok {
		return strings.Contains(body, part)
	}
	if whole, ok := strings.CutPrefix(want, "="); ok {
		return body == whole
	}
	if name, ok := strings.CutPrefix(want, "!"); ok {
		return resp.Header.Get(name) == ""
	}
	if name, part, ok := strings.Cut(want, "~ "); ok && !strings.Contains(name, ": ") {
		return strings.Contains(strings.Join(resp.Header.Values(name), ", "), part)
	}
	name, value, _ := strings.Cut(want, ": ")
	return strings.Join(resp.Header.Values(name), ", ") == value
}

// TestListsAreOnTheirPage: the page names every list that has cases, and its other tests are there.
func TestListsAreOnTheirPage(t *testing.T) {
	page := string(testenv.Need(os.ReadFile("../../docs/knot-nginx-tests.md"))(t))
	for _, g := range listGroups() {
		for _, c := range g.cases {
			testenv.True(t, strings.Contains(page, "`"+c.list+"`"), "%s is not there", c.list)
		}
	}
	tests := regexp.MustCompile("`([./a-z0-9]+):(Test\\w+)`").FindAllStringSubmatch(page, -1)
	testenv.AtLeast(t, len(tests), 50, "tests that the page names")
	texts := make(map[string]string)
	for _, test := range tests {
		folder, name := "../../"+test[1], test[2]
		if texts[folder] == "" {
			for _, file := range testenv.Need(filepath.Glob(folder + "/*_test.go"))(t) {
				texts[folder] += string(testenv.Need(os.ReadFile(file))(t))
			}
		}
		testenv.True(t, strings.Contains(texts[folder], "func "+name+"("), "%s has no %s", test[1], name)
	}
}
