// Package rewrite puts stack checkpoints into Go source (Capriccio, section 3.1): a call
// that was chosen as a checkpoint becomes one of a generated function, which asks whether
// the stack has room, makes the call if it has, and links a chunk for it if not.
//
// The sources on disk stay as they are: the changed ones go to a temporary folder and
// to the go command through its flag -overlay. What a call means is preserved, or the
// call is refused with a reason; see Rewriter.Refused. Positions are preserved by line
// directives, so that stack traces and coverage show the lines of the original.
//
// A Rewriter may be used by one goroutine at a time. No function touches a file outside
// of the folder that it is given.
package rewrite
