package h1

import "bytes"

// MaxCodings is how many content codings a server may have to choose from.
const MaxCodings = 8

// An Acceptance is what a client says about content codings (RFC 9110, 12.5.3). The zero value is that of a client that says
// nothing.
type Acceptance struct {
	weights       [MaxCodings]int // in thousandths, plus 1; 0: not named
	any, identity int             // in thousandths
	there         bool
}

// Take takes up the value of a line Accept-Encoding, for n codings with names in lower case.
func (a *Acceptance) Take(value []byte, n int, name func(int) string) {
	a.there = true
	for len(value) > 0 {
		var element []byte
		element, value = NextElement(value)
		coding, weight := weighted(element)
		switch {
		case string(coding) == "*":
			a.any = weight
		case TextIs(coding, "identity"):
			a.identity = weight
		default:
			if TextIs(coding, "x-gzip") {
				coding = coding[2:]
			}
			for i := range n {
				if TextIs(coding, name(i)) {
					a.weights[i] = weight + 1
				}
			}
		}
	}
}

// Ranked appends the numbers of the codings that the client accepts, best first: by its own weights, then in order. A client
// that says nothing, and one that likes identity better, gets none.
func (a *Acceptance) Ranked(to []uint8, n int) []uint8 {
	if !a.there {
		return to
	}
	for i := range n {
		if a.weights[i] == 0 {
			a.weights[i] = a.any + 1
		}
		if a.weights[i] == 1 || a.weights[i]-1 < a.identity {
			continue
		}
		to = append(to, uint8(i))
		for k := len(to) - 1; k > 0 && a.weights[to[k]] > a.weights[to[k-1]]; k-- {
			to[k], to[k-1] = to[k-1], to[k]
		}
	}
	return to
}

// weighted splits "name;q=0.5" and returns the weight in thousandths; 0 if it is malformed.
func weighted(element []byte) (name []byte, weight int) {
	semicolon := bytes.IndexByte(element, ';')
	if semicolon < 0 {
		return element, 1000
	}
	name, rest := TrimBlank(element[:semicolon]), TrimBlank(element[semicolon+1:])
	if len(rest) < 3 || rest[0]|0x20 != 'q' || rest[1] != '=' {
		return name, 0
	}
	digits := rest[2:]
	if digits[0] != '0' && digits[0] != '1' || len(digits) > 1 && digits[1] != '.' || len(digits) > 5 {
		return name, 0
	}
	weight = int(digits[0]-'0') * 1000
	scale := 100
	for _, ch := range digits[min(2, len(digits)):] {
		if ch < '0' || ch > '9' {
			return name, 0
		}
		weight += int(ch-'0') * scale
		scale /= 10
	}
	return name, min(weight, 1000)
}
