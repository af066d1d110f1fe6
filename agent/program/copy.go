package program

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// copySelf copies this program to a path, or into a directory under its own name. The file appears complete or not at all, because another
// container may read it while it is being written.
func copySelf(destination string) error {
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if found, err := os.Stat(destination); err == nil && found.IsDir() {
		destination = filepath.Join(destination, filepath.Base(executable))
	}
	source, err := os.Open(executable)
	if err != nil {
		return fmt.Errorf("open this program: %w", err)
	}
	defer source.Close()
	if err := installFile(source, destination); err != nil {
		return fmt.Errorf("copy this program to %s: %w", destination, err)
	}
	return nil
}

func installFile(source io.Reader, destination string) error {
	tempFile, err := os.CreateTemp(filepath.Dir(destination), ".swarm-agent-")
	if err != nil {
		return err
	}
	_, copyErr := io.Copy(tempFile, source)
	err = errors.Join(copyErr, tempFile.Chmod(0o755), tempFile.Close())
	if err == nil {
		err = os.Rename(tempFile.Name(), destination)
	}
	if err != nil {
		_ = os.Remove(tempFile.Name())
	}
	return err
}
