package program

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// copySelf puts this program under a name, or into a folder under its own. The file appears complete or not at all,
// because the other container may look while it is being written.
func copySelf(destination string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if found, err := os.Stat(destination); err == nil && found.IsDir() {
		destination = filepath.Join(destination, filepath.Base(self))
	}
	source, err := os.Open(self)
	if err != nil {
		return fmt.Errorf("open this program: %w", err)
	}
	defer source.Close()
	if err := place(source, destination); err != nil {
		return fmt.Errorf("copy this program to %s: %w", destination, err)
	}
	return nil
}

func place(source io.Reader, destination string) error {
	draft, err := os.CreateTemp(filepath.Dir(destination), ".swarm-agent-")
	if err != nil {
		return err
	}
	_, copied := io.Copy(draft, source)
	err = errors.Join(copied, draft.Chmod(0o755), draft.Close())
	if err == nil {
		err = os.Rename(draft.Name(), destination)
	}
	if err != nil {
		_ = os.Remove(draft.Name())
	}
	return err
}
