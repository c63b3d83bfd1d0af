package plan

import (
	"fmt"
	"strconv"
	"strings"
)

// Bytes is an amount of stack.
type Bytes int64

// String is in bytes below 10,000, else, and for whole ones, in KB of 1024 bytes.
func (b Bytes) String() string {
	switch {
	case b != 0 && b%1024 == 0:
		return strconv.FormatInt(int64(b/1024), 10) + " KB"
	case b > -10000 && b < 10000:
		return strconv.FormatInt(int64(b), 10) + " B"
	}
	return strconv.FormatFloat(float64(b)/1024, 'f', 1, 64) + " KB"
}

// ParseBytes reads 2048, 2KB, 2K, 1MB or 512B; a K is 1024.
func ParseBytes(s string) (Bytes, error) {
	number := strings.ToUpper(strings.TrimSpace(s))
	number = strings.TrimSuffix(strings.TrimSuffix(number, "B"), "I")
	unit := Bytes(1)
	if k, ok := strings.CutSuffix(number, "K"); ok {
		number, unit = k, 1<<10
	} else if m, ok := strings.CutSuffix(number, "M"); ok {
		number, unit = m, 1<<20
	}
	n, err := strconv.ParseUint(strings.TrimSpace(number), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is not a size; want one like 512B, 2KB or 1MB", s)
	}
	return Bytes(n) * unit, nil
}

// Set makes a *Bytes a flag.Value.
func (b *Bytes) Set(s string) (err error) {
	*b, err = ParseBytes(s)
	return err
}

// A Config says which program is looked at. The zero value is the main package of the
// current folder.
type Config struct {
	Dir        string   // where the go command runs; empty: the current folder
	Patterns   []string // of the main package, or with Tests of the one package that is tested; empty: "."
	Tests      bool     // the program is the test binary of the package
	BuildFlags []string // for go build: -tags, -race …
	Binary     string   // built already, with the same sources and flags; empty: built in a temporary folder

	// Rewrite are import path patterns, as in "example.com/mod/...", of the packages
	// whose sources may be changed; empty: those of the main module. The standard
	// library never is, nor are the packages that checkpoints are made of.
	Rewrite []string
	// Annotations is a file of trusted bounds besides the built-in ones; see ParseAnnotations.
	Annotations string
	// All: not only what tasks run is looked at, but main and goroutines too. It is
	// implied if the program starts no task.
	All bool
}

// A Checkpoint is a call in the source that should go through stackchunk.
type Checkpoint struct {
	File        string `json:"file"`   // absolute
	Offset      int    `json:"offset"` // of the call expression, in bytes
	End         int    `json:"end"`    // behind its closing parenthesis
	Line        int    `json:"line"`
	Col         int    `json:"col"` // of Offset, in bytes from 1
	Caller      string `json:"caller"`
	Callee      string `json:"callee"` // several are separated by ", "
	Need        Bytes  `json:"need"`   // of the callee down to the next checkpoints or the end
	Site        string `json:"site"`   // file:line:col of the opening parenthesis, with the import path of the package for a folder
	PackagePath string `json:"package"`
	BackEdge    bool   `json:"back_edge"` // breaks a recursion
}

// A Plan is where the checkpoints of a program go.
type Plan struct {
	Package     string       `json:"package"`
	MaxPath     Bytes        `json:"max_path"`
	MinChunk    Bytes        `json:"min_chunk"`
	Checkpoints []Checkpoint `json:"checkpoints"` // by File, Offset, then End
	CallSites   int          `json:"call_sites"`  // in the sources that may be changed and that tasks run
	Longest     Bytes        `json:"longest"`     // path between checkpoints; more than MaxPath if it leads through code that can't have any
	Entries     []EntryPlan  `json:"entries"`
	Refused     []Refused    `json:"refused,omitempty"` // calls that tasks run and that can't be rewritten, by Site
}

// A Refused is a call that can't be a checkpoint.
type Refused struct {
	Site   string `json:"site"`
	Caller string `json:"caller"`
	Callee string `json:"callee"`
	Reason string `json:"reason"`
}

// An EntryPlan is what a plan means for one kind of task.
type EntryPlan struct {
	Function string `json:"function"`
	First    Bytes  `json:"first"` // of stack that it needs down to the first checkpoints
}
