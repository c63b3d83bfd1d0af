//go:build linux

package main

import (
	"slices"
	"testing"
)

func TestKeysOfATerminal(t *testing.T) {
	for in, want := range map[string][]key{
		"q":                                {'q'},
		"aé\r\n\b":                         {'a', 'é', keyEnter, keyEnter, keyBackspace},
		"\x1b[A\x1bOBx":                    {keyUp, keyDown, 'x'},
		"\x1b[5~\x1b[1~":                   {keyPageUp, keyHome},
		"\x1b":                             {keyEscape},
		"\x1bq":                            {keyEscape, 'q'},
		"\x1b\x1b[C":                       {keyEscape, keyRight},
		"\x1b[1;5A":                        {keyUnknown},
		"\x1b[":                            {keyUnknown},
		"\x1b[1;":                          {keyUnknown},
		"\xff\xc3":                         {'\uFFFD', '\uFFFD'},
		"\x1b[" + string(make([]byte, 40)): append([]key{keyUnknown}, make([]key, 10)...),
	} {
		var got []key
		// As it comes on a slow line: a byte at a time, then nothing more.
		var pending []byte
		take := func(complete bool) {
			for {
				k, n := nextKey(pending, complete)
				if n == 0 {
					return
				}
				pending = pending[n:]
				got = append(got, k)
			}
		}
		for i := range len(in) {
			pending = append(pending, in[i])
			take(false)
		}
		take(true)
		if !slices.Equal(got, want) || len(pending) != 0 {
			t.Errorf("%q: got %v, want %v; %q left", in, got, want, pending)
		}
	}
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte("\x1b[A"), true)
	f.Add([]byte("\x1b[1;\xffq"), false)
	f.Fuzz(func(t *testing.T, in []byte, complete bool) {
		for len(in) > 0 {
			_, n := nextKey(in, complete)
			if n < 0 || n > len(in) || n == 0 && (complete || len(in) >= longestSequence) {
				t.Fatalf("takes %d of %q", n, in)
			}
			if n == 0 {
				return
			}
			in = in[n:]
		}
	})
}
