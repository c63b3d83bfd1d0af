// Package filesd reads lists of targets as Prometheus has them for file_sd and http_sd.
package filesd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v2"
)

// MaxBytes is how many bytes a list may have.
const MaxBytes = 16 << 20

// A Group is an element of a list.
type Group struct {
	Targets []string          `json:"targets" yaml:"targets"`
	Labels  map[string]string `json:"labels" yaml:"labels"`
}

// Read reads a file: JSON if its name ends so, else YAML. Errors may have words of the file.
func Read(file string) ([]Group, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	defer f.Close()
	text, err := ReadAll(f)
	if err != nil {
		return nil, err
	}
	if filepath.Ext(file) == ".json" {
		return DecodeJSON(text)
	}
	var groups []Group
	if err := yaml.UnmarshalStrict(text, &groups); err != nil {
		return nil, fmt.Errorf("this is no list of targets as Prometheus has them for file_sd: %s", strings.Join(strings.Fields(err.Error()), " "))
	}
	return groups, nil
}

// ReadAll reads r, up to MaxBytes.
func ReadAll(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err == nil && len(text) > MaxBytes {
		err = fmt.Errorf("the list has more than %d bytes", MaxBytes)
	}
	return text, err
}

// DecodeJSON reads a list in JSON.
func DecodeJSON(text []byte) ([]Group, error) {
	var groups []Group
	if err := json.Unmarshal(text, &groups); err != nil {
		return nil, fmt.Errorf(`this is no list of targets as Prometheus has them, [{"targets": ["HOST:PORT"], "labels": {}}]: %w`, err)
	}
	return groups, nil
}
