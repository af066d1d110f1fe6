package mount

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// A volume is a folder that is changed as the kubelet changes one: the files are links into ..data, which is a link to a
// folder of its own for each content, and is replaced by a rename.
type volume struct {
	folder string
	number int
}

func (v *volume) publish(t *testing.T, name, content string) {
	t.Helper()
	v.number++
	must(t, os.MkdirAll(v.folder, 0o755))
	next := "..content-" + strconv.Itoa(v.number)
	must(t, os.Mkdir(filepath.Join(v.folder, next), 0o755))
	must(t, os.WriteFile(filepath.Join(v.folder, next, name), []byte(content), 0o600))
	must(t, os.Symlink(next, filepath.Join(v.folder, "..data_tmp")))
	must(t, os.Rename(filepath.Join(v.folder, "..data_tmp"), filepath.Join(v.folder, "..data")))
	if err := os.Symlink(filepath.Join("..data", name), filepath.Join(v.folder, name)); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	if v.number > 1 {
		must(t, os.RemoveAll(filepath.Join(v.folder, "..content-"+strconv.Itoa(v.number-1))))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// follow follows files by notifications of the kernel only: the periodic look would take longer than any test.
func follow(t *testing.T, every time.Duration, files ...string) <-chan []Sight {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	sights, done := make(chan []Sight), make(chan struct{})
	go func() {
		defer close(done)
		Follower{Files: files, Every: every, Log: slog.New(slog.DiscardHandler)}.Follow(ctx, sights)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return sights
}

// await receives until the file with this number has the content; what is in between may be missed.
func await(t *testing.T, sights <-chan []Sight, number int, content string) {
	t.Helper()
	limit := time.After(30 * time.Second)
	for {
		select {
		case seen := <-sights:
			if seen[number].Err == nil && string(seen[number].Content) == content {
				return
			}
		case <-limit:
			t.Fatalf("%q was not seen", content)
		}
	}
}

func awaitAbsence(t *testing.T, sights <-chan []Sight, number int) {
	t.Helper()
	for seen := range sights {
		if errors.Is(seen[number].Err, fs.ErrNotExist) {
			return
		}
	}
}

func TestEachSwapIsSeen(t *testing.T) {
	config := &volume{folder: t.TempDir()}
	config.publish(t, "config.yml", "0")
	sights := follow(t, time.Hour, filepath.Join(config.folder, "config.yml"))
	await(t, sights, 0, "0")
	for i := range 20 {
		config.publish(t, "config.yml", strconv.Itoa(i+1))
		await(t, sights, 0, strconv.Itoa(i+1))
	}
}

func TestTheLastOfManySwapsIsSeen(t *testing.T) {
	config := &volume{folder: t.TempDir()}
	config.publish(t, "config.yml", "0")
	sights := follow(t, time.Hour, filepath.Join(config.folder, "config.yml"))
	for i := range 50 {
		config.publish(t, "config.yml", strconv.Itoa(i+1))
	}
	await(t, sights, 0, "50")
}

func TestFilesMayComeLaterGoAndComeBack(t *testing.T) {
	root := t.TempDir()
	config, pod := &volume{folder: filepath.Join(root, "a", "b", "config")}, &volume{folder: filepath.Join(root, "pod")}
	sights := follow(t, time.Hour, filepath.Join(config.folder, "config.yml"), filepath.Join(pod.folder, "version"))
	awaitAbsence(t, sights, 0)
	config.publish(t, "config.yml", "late")
	await(t, sights, 0, "late")
	pod.publish(t, "version", "7")
	await(t, sights, 1, "7")
	must(t, os.RemoveAll(config.folder))
	awaitAbsence(t, sights, 0)
	config.publish(t, "config.yml", "again")
	await(t, sights, 0, "again")
}

func TestPlainFilesAreSeenToo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yml")
	sights := follow(t, time.Hour, file)
	awaitAbsence(t, sights, 0)
	must(t, os.WriteFile(file, []byte("one"), 0o600))
	await(t, sights, 0, "one")
	must(t, os.WriteFile(file+".new", []byte("two"), 0o600))
	must(t, os.Rename(file+".new", file))
	await(t, sights, 0, "two")
}

// The same again is no news: what follows a change is the next change.
func TestOnlyNewsIsTold(t *testing.T) {
	config := &volume{folder: t.TempDir()}
	config.publish(t, "config.yml", "same")
	sights := follow(t, time.Millisecond, filepath.Join(config.folder, "config.yml"))
	await(t, sights, 0, "same")
	for range 5 {
		config.publish(t, "config.yml", "same")
	}
	config.publish(t, "config.yml", "other")
	if seen := <-sights; string(seen[0].Content) != "other" {
		t.Errorf("told %q, %v", seen[0].Content, seen[0].Err)
	}
}
