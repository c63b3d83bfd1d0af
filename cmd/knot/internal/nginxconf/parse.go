// Package nginxconf reads configurations of nginx and translates them to that of command knot. It serves nothing, and looks
// at no file besides the files that the configuration includes.
package nginxconf

import (
	"fmt"
	"strings"
)

// Limits of a configuration.
const (
	mostBytes = 1 << 20 // of a file
	mostDepth = 16      // of blocks
	mostFiles = 1000    // that are included
	mostRules = 1000    // tables that the rules of a block become
)

// A Directive is a line of a configuration, as "listen 80;", or a block, as "server { ... }".
type Directive struct {
	Name     string
	Args     []string // without quotes and escapes
	Block    []*Directive
	HasBlock bool
	File     string
	Line     int // of its name
}

func (d *Directive) String() string { return strings.Join(append([]string{d.Name}, d.Args...), " ") }

// arg is an argument; "": there is none.
func (d *Directive) arg(i int) string {
	if i < len(d.Args) {
		return d.Args[i]
	}
	return ""
}

// A parser is at a place of a file.
type parser struct {
	file, text string
	at, line   int
}

// Parse reads the text of one file. Includes stay directives.
func Parse(file string, text []byte) ([]*Directive, error) {
	if len(text) > mostBytes {
		return nil, fmt.Errorf("%s: it has %d bytes; want at most %d", file, len(text), mostBytes)
	}
	p := &parser{file: file, text: strings.TrimPrefix(string(text), "\ufeff"), line: 1}
	return p.block(0)
}

func (p *parser) errorf(line int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", p.file, line, fmt.Sprintf(format, args...))
}

// block reads directives up to the end of the block, or of the file at depth 0.
func (p *parser) block(depth int) (all []*Directive, err error) {
	if depth > mostDepth {
		return nil, p.errorf(p.line, "blocks within blocks; want at most %d", mostDepth)
	}
	began := p.line
	for {
		words, line, end, err := p.statement()
		if err != nil {
			return nil, err
		}
		d := &Directive{File: p.file, Line: line}
		if len(words) > 0 {
			d.Name, d.Args = words[0], words[1:]
		}
		switch {
		case end == 0 && len(words) > 0:
			return nil, p.errorf(line, "%q has no end; want ; or a block", d.Name)
		case end == 0 && depth > 0:
			return nil, p.errorf(began, "the block has no end; want }")
		case end == 0:
			return all, nil
		case end == '}' && len(words) > 0:
			return nil, p.errorf(line, "%q has no end; want ; before }", d.Name)
		case end == '}' && depth == 0:
			return nil, p.errorf(p.line, "a } that ends no block")
		case end == '}':
			return all, nil
		case len(words) == 0:
			return nil, p.errorf(p.line, "%q without a directive before it", end)
		case end == '{':
			d.HasBlock = true
			if d.Block, err = p.block(depth + 1); err != nil {
				return nil, err
			}
		}
		all = append(all, d)
	}
}

// statement reads words up to a semicolon or a brace; end is 0 at the end of the file.
func (p *parser) statement() (words []string, line int, end byte, err error) {
	for {
		p.skip()
		if line == 0 {
			line = p.line
		}
		if p.at == len(p.text) {
			return words, line, 0, nil
		}
		switch c := p.text[p.at]; c {
		case ';', '{', '}':
			p.at++
			return words, line, c, nil
		}
		word, err := p.word()
		if err != nil {
			return nil, 0, 0, err
		}
		words = append(words, word)
	}
}

// skip passes over blanks and comments.
func (p *parser) skip() {
	for ; p.at < len(p.text); p.at++ {
		switch p.text[p.at] {
		case '\n':
			p.line++
		case ' ', '\t', '\r':
		case '#':
			end := strings.IndexByte(p.text[p.at:], '\n')
			if end < 0 {
				p.at = len(p.text)
				return
			}
			p.at += end - 1
		default:
			return
		}
	}
}

// escapes are what a backslash stands for with the character behind it. Before all others it stands for itself.
var escapes = map[byte]byte{'"': '"', '\'': '\'', '\\': '\\', 't': '\t', 'r': '\r', 'n': '\n'}

// word reads a word, with quotes or without.
func (p *parser) word() (string, error) {
	var word strings.Builder
	began, quote := p.line, p.text[p.at]
	if quote == '"' || quote == '\'' {
		p.at++
	} else {
		quote = 0
	}
	for ; p.at < len(p.text); p.at++ {
		c := p.text[p.at]
		switch {
		case c == '\\' && p.at+1 < len(p.text):
			p.at++
			c = p.text[p.at]
			if stands, ok := escapes[c]; ok {
				word.WriteByte(stands)
				continue
			}
			word.WriteByte('\\')
		case quote != 0 && c == quote:
			p.at++
			if p.at < len(p.text) && !strings.ContainsRune(" \t\r\n;{)", rune(p.text[p.at])) {
				return "", p.errorf(p.line, "%q right behind a quote; want a blank", p.text[p.at])
			}
			return word.String(), nil
		case quote == 0 && strings.IndexByte(" \t\r\n;", c) >= 0, quote == 0 && c == '{' && !strings.HasSuffix(word.String(), "$"):
			return word.String(), nil
		}
		if c == '\n' {
			p.line++
		}
		word.WriteByte(c)
	}
	if quote != 0 {
		return "", p.errorf(began, "a quote (%c) that has no end", quote)
	}
	return word.String(), nil
}
