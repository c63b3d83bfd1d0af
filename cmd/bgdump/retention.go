package main

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A retention says which recordings below a folder are kept. A zero field keeps all.
type retention struct {
	number int           // of a program, in each folder: the latest
	age    time.Duration // at most
	size   int64         // bytes in all: the latest
}

// A recordingFile is a recording below a folder.
type recordingFile struct {
	folder, name string
	size         int64
}

// prune removes the recordings in a folder and in the folders in it that are not kept, and folders that are empty then.
func (k retention) prune(dir string, now time.Time) error {
	if k == (retention{}) {
		return nil
	}
	folders, err := foldersIn(dir)
	if err != nil {
		return err
	}
	var all []recordingFile
	var total int64
	for _, folder := range append(folders, dir) {
		names, err := listRecordings(folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		kept := map[string]int{} // of each program
		for _, name := range slices.Backward(names) {
			r := recordingFile{folder: folder, name: name}
			program := recordingName.FindStringSubmatch(name)[2]
			kept[program]++
			if k.number > 0 && kept[program] > k.number || k.age > 0 && now.Sub(recordedAt(name)) > k.age {
				if err := r.remove(dir); err != nil {
					return err
				}
				continue
			}
			if k.size > 0 {
				if info, err := os.Lstat(filepath.Join(folder, name)); err == nil {
					r.size = info.Size()
				}
			}
			total += r.size
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b recordingFile) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.folder, b.folder))
	})
	for i := 0; k.size > 0 && total > k.size && i < len(all)-1; i++ { // the last one is kept, however large it is
		if err := all[i].remove(dir); err != nil {
			return err
		}
		total -= all[i].size
	}
	return nil
}

// remove removes the recording, and its folder if that is in dir and empty.
func (r recordingFile) remove(dir string) error {
	if err := os.Remove(filepath.Join(r.folder, r.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if r.folder != dir {
		_ = os.Remove(r.folder) // fails if it is not empty
	}
	return nil
}

// foldersIn returns the folders in a folder, sorted.
func foldersIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out, nil
}
