package rewrite

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// WriteOverlay writes the changed files into the folder dir and returns the name of
// the file there that go build -overlay takes.
func (r *Result) WriteOverlay(dir string) (string, error) {
	replace := map[string]string{}
	for name, text := range r.Files {
		// The number keeps files of the same name apart.
		to := filepath.Join(dir, fmt.Sprintf("%d-%s", len(replace), filepath.Base(name)))
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return "", err
		}
		replace[name] = to
	}
	list, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, list, 0o644)
}
