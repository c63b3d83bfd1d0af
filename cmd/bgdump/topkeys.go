//go:build linux

package main

import (
	"regexp"
	"unicode"
	"unicode/utf8"
)

// A key is a character that was typed, or one of those below.
type key rune

const (
	keyUp key = -iota - 1
	keyDown
	keyRight
	keyLeft
	keyPageUp
	keyPageDown
	keyHome
	keyEnd
	keyUnknown

	keyEnter     key = '\r'
	keyEscape    key = 0x1b
	keyBackspace key = 0x7f
	keyInterrupt key = 'C' - '@'
	keySuspend   key = 'Z' - '@'
	keyRedraw    key = 'L' - '@'
	keyClear     key = 'U' - '@'
)

// sequences are what terminals send for a key after the escape character.
var sequences = map[string]key{
	"[A": keyUp, "[B": keyDown, "[C": keyRight, "[D": keyLeft,
	"OA": keyUp, "OB": keyDown, "OC": keyRight, "OD": keyLeft,
	"[5~": keyPageUp, "[6~": keyPageDown, "[H": keyHome, "[F": keyEnd,
	"OH": keyHome, "OF": keyEnd, "[1~": keyHome, "[4~": keyEnd, "[7~": keyHome, "[8~": keyEnd,
}

// longestSequence is where one is given up that does not end.
const longestSequence = 32

// nextKey takes the first key off what a terminal has sent. It takes nothing if that
// is the beginning of a key only, unless there is no more to come.
func nextKey(in []byte, complete bool) (k key, taken int) {
	if len(in) == 0 {
		return 0, 0
	}
	if in[0] != byte(keyEscape) {
		if !utf8.FullRune(in) && !complete {
			return 0, 0
		}
		r, n := utf8.DecodeRune(in)
		switch {
		case r == '\n':
			r = rune(keyEnter)
		case r == '\b':
			r = rune(keyBackspace)
		}
		return key(r), n
	}
	if len(in) == 1 || in[1] != '[' && in[1] != 'O' {
		if len(in) == 1 && !complete {
			return 0, 0
		}
		return keyEscape, 1
	}
	for i := 2; i < min(len(in), longestSequence); i++ {
		if c := in[i]; c >= 0x40 && c <= 0x7e {
			if k, ok := sequences[string(in[1:i+1])]; ok {
				return k, i + 1
			}
			return keyUnknown, i + 1
		}
	}
	if complete || len(in) >= longestSequence {
		return keyUnknown, min(len(in), longestSequence)
	}
	return 0, 0
}

// What a key asks for that the view cannot do itself.
type action int

const (
	actNothing action = iota // but to draw
	actQuit
	actSuspend
	actRedraw // everything, as something else has been drawn over it
	actResume // after a pause: ask at once
)

// press does what a key says.
func (v *topView) press(k key) action {
	switch k {
	case keyInterrupt:
		return actQuit
	case keySuspend:
		return actSuspend
	case keyRedraw:
		return actRedraw
	}
	if v.prompt != nil {
		v.edit(k)
		return actNothing
	}
	switch k {
	case 'q', 'Q':
		return actQuit
	case 'p', 'P', ' ':
		v.paused = !v.paused
		if !v.paused {
			return actResume
		}
	case '?':
		v.help = !v.help
	case keyEscape:
		v.help = false
	case '/':
		v.help, v.prompt = false, new(prompt)
		if v.focus != nil {
			v.prompt.text = v.focus.String()
		}
	case '-':
		v.reverse = !v.reverse
		v.arrange()
	case keyLeft:
		v.move(-1)
	case keyRight:
		v.move(1)
	default:
		v.scrollOrSort(k)
	}
	return actNothing
}

func (v *topView) scrollOrSort(k key) {
	switch k {
	case keyUp:
		v.scroll--
	case keyDown:
		v.scroll++
	case keyPageUp:
		v.scroll -= v.page()
	case keyPageDown:
		v.scroll += v.page()
	case keyHome:
		v.scroll = 0
	case keyEnd:
		v.scroll = len(v.rows)
	case nameLetter:
		v.sortBy(nameColumn)
	default:
		for _, c := range topColumns {
			if key(c.letter) == k {
				v.sortBy(c.name)
			}
		}
	}
	v.clampScroll()
}

// longestPrompt is how many characters may be typed.
const longestPrompt = 1000

// edit changes the line that is being typed.
func (v *topView) edit(k key) {
	p := v.prompt
	p.problem = ""
	switch {
	case k == keyEscape:
		v.prompt = nil
	case k == keyEnter:
		v.apply()
	case k == keyClear:
		p.text = ""
	case k == keyBackspace:
		_, n := utf8.DecodeLastRuneInString(p.text)
		p.text = p.text[:len(p.text)-n]
	case k > 0 && k != utf8.RuneError && unicode.IsPrint(rune(k)) && len(p.text) < longestPrompt:
		p.text += string(rune(k))
	}
}

// apply makes what was typed the new focus; nothing means all.
func (v *topView) apply() {
	if v.prompt.text == "" {
		v.focus = nil
	} else {
		re, err := regexp.Compile(v.prompt.text)
		if err != nil {
			v.prompt.problem = "not a regular expression"
			return
		}
		v.focus = re
	}
	v.prompt, v.scroll = nil, 0
	v.arrange()
}
