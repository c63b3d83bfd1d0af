package funcname

import "strings"

// Enclosing returns the last name in that of a function, without its package and receiver,
// which is what the function is declared as; and whether what has the name is a function
// literal in there, or the body of a loop over a function. The same literal is called
//
//	main.glob.inl.func3.1 or main.inl.func1.1    (Go 1.26 and 1.27, if inl is inlined in glob)
//	main.(*T).M.(*T).M.func1.func5 or main.(*T).M.func1.func1 or main.(*T).M.func1.1
func Enclosing(function string) (name string, literal bool) {
	parts := nameParts(Short(function))
	if len(parts) < 2 {
		return function, false
	}
	parts = parts[1:] // without the package
	for {
		last := len(parts) - 1
		if body := strings.LastIndex(parts[last], "-range"); body > 0 {
			parts[last] = parts[last][:body]
		} else if last == 0 || !isLiteralPart(parts[last]) {
			return parts[last], literal
		} else {
			parts = parts[:last]
		}
		literal = true
	}
}

// isLiteralPart reports whether the compiler gives that name to literals: func1, or the 2 of
// func1.2, or wrappers of go and defer statements.
func isLiteralPart(part string) bool {
	for _, prefix := range []string{"func", "gowrap", "deferwrap"} {
		part = strings.TrimPrefix(part, prefix)
	}
	return part != "" && strings.Trim(part, "0123456789") == ""
}

// nameParts cuts a name at its dots, but not at those of type arguments and receivers.
func nameParts(name string) (parts []string) {
	depth, from := 0, 0
	for i := range len(name) {
		switch name[i] {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		case '.':
			if depth == 0 {
				parts = append(parts, name[from:i])
				from = i + 1
			}
		}
	}
	return append(parts, name[from:])
}
