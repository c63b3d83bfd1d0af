package words

import "strings"

// Markdown is text in which no name is taken for markup.
func Markdown(text string) string { return markdownEscapes.Replace(Clean(text)) }

var markdownEscapes = strings.NewReplacer("\\", "\\\\", "|", "\\|", "*", "\\*", "_", "\\_", "`", "\\`", "<", "&lt;", ">", "&gt;", "[", "\\[", "]", "\\]", "#", "\\#")
