// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Database is a copy of the database of a DebianIronic.
type Database map[string][]byte // by file name

// databaseFiles are sqlite's: what was written last is in the write-ahead log.
var databaseFiles = []string{"ironic.sqlite", "ironic.sqlite-wal"}

// logIndex is made anew from the write-ahead log.
const logIndex = "ironic.sqlite-shm"

// ReadDatabase copies the database of a running Ironic, which is suspended meanwhile.
func (i *DebianIronic) ReadDatabase() (database Database, err error) {
	if err := i.Pause(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, i.Resume()) }()
	database = Database{}
	for _, name := range databaseFiles {
		content, err := os.ReadFile(filepath.Join(i.state, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		database[name] = content
	}
	return database, nil
}

// RestoreDatabase kills Ironic, replaces its database by a copy, and starts it again.
func (i *DebianIronic) RestoreDatabase(ctx context.Context, database Database) error {
	if err := i.Kill(); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(i.state, logIndex)); err != nil {
		return err
	}
	for _, name := range databaseFiles {
		path := filepath.Join(i.state, name)
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		if content, has := database[name]; has {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				return err
			}
		}
	}
	return i.Start(ctx)
}
