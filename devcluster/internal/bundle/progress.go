package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"
)

// progress reports every few seconds how far a build is. Packages count by the size of their sources: the standard library, which
// comes first, is many small packages, and counting packages would promise an end far too soon. What the build cache has already
// is never named by the compiler, so a build may end earlier than announced.
type progress struct {
	out   io.Writer
	sizes map[string]int64 // by package
	total int64
	done  int64
	count int
	began time.Time
	said  time.Time
}

const every = 10 * time.Second

// survey finds out what there is to build.
func survey(ctx context.Context, source string, out io.Writer) (*progress, error) {
	list := golang(ctx, source, "list", "-deps", "-json=ImportPath,Dir,GoFiles", "./kube")
	list.Stderr = os.Stderr
	text, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages to build: %w", err)
	}
	p := &progress{out: out, sizes: map[string]int64{}, began: time.Now()}
	for packages := json.NewDecoder(bytes.NewReader(text)); ; {
		var one struct {
			ImportPath, Dir string
			GoFiles         []string
		}
		if err := packages.Decode(&one); errors.Is(err, io.EOF) {
			return p, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the list of packages: %w", err)
		}
		p.sizes[one.ImportPath] = size(one.Dir, one.GoFiles)
		p.total += p.sizes[one.ImportPath]
	}
}

func size(folder string, files []string) int64 {
	var total int64
	for _, name := range files {
		if info, err := os.Stat(filepath.Join(folder, name)); err == nil {
			total += info.Size()
		}
	}
	return total
}

// compiled takes a line of the compiler's, and reports whether it was the name of a package and not a complaint.
func (p *progress) compiled(line string) bool {
	size, known := p.sizes[line]
	if !known {
		return false
	}
	p.count++
	p.done += size
	if spent := time.Since(p.began); time.Since(p.said) >= every && spent >= every {
		p.said = time.Now()
		left := remaining(spent, float64(p.done)/float64(p.total))
		fmt.Fprintf(p.out, "  %2d %% compiled (%d of %d packages) in %s, about %s to go\n",
			100*p.done/p.total, p.count, len(p.sizes), spent.Round(time.Second), left.Round(10*time.Second))
	}
	return true
}

// remaining guesses the time left. Later packages import more and cost more per byte: in a whole build of 9 minutes half of the
// sources were done after three tenths of the time, nine tenths after eight, which is the share to the power of 1.7.
func remaining(spent time.Duration, share float64) time.Duration {
	return time.Duration(float64(spent) * (1/math.Pow(max(share, 0.001), 1.7) - 1))
}

func (p *progress) finished() {
	fmt.Fprintf(p.out, "  Kubernetes is built: %d packages compiled in %s\n", p.count, time.Since(p.began).Round(time.Second))
}
