//go:build linux

package probe

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// excerpt is the beginning of a text, to be shown in an error.
func excerpt(text []byte) string {
	return strconv.Quote(string(text[:min(len(text), 60)]))
}

// parseCount reads a file that has one number that is not negative.
func parseCount(text []byte) (float64, error) {
	v, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is not a count", excerpt(text))
	}
	return float64(v), nil
}

// parseMapped returns the first of the numbers in /proc/PID/statm, in pages (proc_pid_statm(5)).
func parseMapped(text []byte) (float64, error) {
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0, fmt.Errorf("%s is no line of sizes", excerpt(text))
	}
	return parseCount(fields[0])
}

// noLimit is below the number by which cgroup v1 says that there is no limit: the largest number of whole pages, almost
// 1<<63 bytes.
const noLimit = 1 << 62

// parseLimit reads a limit of a cgroup; +Inf if there is none.
func parseLimit(text []byte) (float64, error) {
	if string(bytes.TrimSpace(text)) == "max" {
		return math.Inf(1), nil
	}
	v, err := parseCount(text)
	if err != nil {
		return 0, fmt.Errorf("%s is neither a number of bytes nor max", excerpt(text))
	}
	if v >= noLimit {
		return math.Inf(1), nil
	}
	return v, nil
}

// parseField reads the number behind a word at the beginning of a line, as in
// memory.stat and meminfo.
func parseField(text []byte, word string) (float64, error) {
	for line := range bytes.Lines(text) {
		rest, found := bytes.CutPrefix(line, []byte(word))
		if !found || len(rest) == 0 || rest[0] != ' ' && rest[0] != '\t' {
			continue
		}
		fields := bytes.Fields(rest)
		if len(fields) == 0 {
			break
		}
		return parseCount(fields[0])
	}
	return 0, fmt.Errorf("no number for %s in %s", word, excerpt(text))
}

// parsePressure returns the microseconds in which some thread was waiting (the kernel's
// Documentation/accounting/psi.rst).
func parsePressure(text []byte) (float64, error) {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	_, total, found := bytes.Cut(line, []byte("total="))
	if !found || !bytes.HasPrefix(line, []byte("some ")) {
		return 0, fmt.Errorf("no total in the line %s; want one that begins with some", excerpt(line))
	}
	return parseCount(total)
}

// parseMajorFaults returns the twelfth field of /proc/PID/stat (proc_pid_stat(5)). The
// second is a name in parentheses that may contain anything.
func parseMajorFaults(text []byte) (float64, error) {
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return 0, fmt.Errorf("no name in parentheses in %s", excerpt(text))
	}
	fields := bytes.Fields(text[end+1:])
	if len(fields) < 10 {
		return 0, fmt.Errorf("%d fields after the name; want 10 or more", len(fields))
	}
	return parseCount(fields[9])
}

// A membership is a line of /proc/PID/cgroup (cgroups(7)).
type membership struct {
	controllers string // of v1, separated by commas; "" for v2
	path        string
}

// parseMemberships reads /proc/PID/cgroup.
func parseMemberships(text []byte) (all []membership, err error) {
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimRight(line, "\n"), ":", 3)
		if len(parts) != 3 || !strings.HasPrefix(parts[2], "/") {
			return nil, fmt.Errorf("line %s; want NUMBER:CONTROLLERS:PATH", excerpt([]byte(line)))
		}
		all = append(all, membership{parts[1], parts[2]})
	}
	if len(all) == 0 {
		return nil, errors.New("it is empty")
	}
	return all, nil
}

// A mount is a line of /proc/PID/mountinfo (proc_pid_mountinfo(5)).
type mount struct {
	root, point string
	kind        string // of file system
	options     string // of the superblock
}

// parseMounts reads /proc/PID/mountinfo, and leaves out what it does not understand.
func parseMounts(text []byte) (all []mount) {
	for line := range strings.Lines(string(text)) {
		before, after, found := strings.Cut(line, " - ")
		b, a := strings.Fields(before), strings.Fields(after)
		if found && len(b) >= 6 && len(a) >= 3 {
			all = append(all, mount{root: unescape(b[3]), point: unescape(b[4]), kind: a[0], options: a[2]})
		}
	}
	return all
}

// unescape undoes the octal escapes of spaces and the like.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(v))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}
