package spread

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// auditPosition is a moment in the audit log.
type auditPosition struct {
	at   time.Time
	file os.FileInfo // as it was
}

func currentAuditPosition() auditPosition {
	GinkgoHelper()
	info, err := os.Stat(testcluster.AuditLog())
	Expect(err).NotTo(HaveOccurred())
	return auditPosition{time.Now(), info}
}

// lines are the lines of the log since then. It may have been renamed in the meantime, and another may have been begun.
func (a auditPosition) lines(visit func(line []byte)) {
	GinkgoHelper()
	names, err := filepath.Glob(strings.TrimSuffix(testcluster.AuditLog(), ".log") + "*.log")
	Expect(err).NotTo(HaveOccurred())
	for _, name := range names {
		file, err := os.Open(name)
		Expect(err).NotTo(HaveOccurred())
		defer file.Close()
		info, err := file.Stat()
		Expect(err).NotTo(HaveOccurred())
		if info.ModTime().Before(a.at) {
			continue
		}
		if os.SameFile(info, a.file) {
			_, err = file.Seek(a.file.Size(), io.SeekStart)
			Expect(err).NotTo(HaveOccurred())
		}
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			visit(lines.Bytes())
		}
		Expect(lines.Err()).NotTo(HaveOccurred())
	}
}

// A request is an entry of the audit log.
type request struct {
	Verb, UserAgent string
	ObjectRef       struct{ Resource, Subresource, Namespace, Name string }
	Response        struct{ Code int } `json:"responseStatus"`
	Received        time.Time          `json:"requestReceivedTimestamp"`
}

func (r request) String() string {
	what := strings.Trim(r.ObjectRef.Resource+"/"+r.ObjectRef.Subresource, "/")
	return fmt.Sprintf("%s %s %s %s: %d", r.Received.Format("15:04:05.000"), r.Verb, what, r.ObjectRef.Name, r.Response.Code)
}

// isRemoval reports whether a request has removed a pod.
func (r request) isRemoval() bool {
	of := r.ObjectRef
	return of.Resource == "pods" && (r.Verb == "create" && of.Subresource == "eviction" || r.Verb == "delete")
}

// requests are the operator's since then.
func (a auditPosition) requests() []request {
	GinkgoHelper()
	var result []request
	a.lines(func(line []byte) {
		var one request
		if bytes.Contains(line, []byte("swarm-operator/")) && json.Unmarshal(line, &one) == nil && strings.HasPrefix(one.UserAgent,
			"swarm-operator/") && one.Received.After(a.at) {
			result = append(result, one)
		}
	})
	slices.SortFunc(result, func(a, b request) int { return a.Received.Compare(b.Received) })
	return result
}

// requests are what the operator has asked for in the namespace.
func (s *environment) requests() []request {
	GinkgoHelper()
	return slices.DeleteFunc(s.since.requests(), func(r request) bool { return r.ObjectRef.Namespace != s.namespace })
}

// moves returns the removals of pods by the operator, in order.
func (s *environment) moves() []request {
	GinkgoHelper()
	return slices.DeleteFunc(s.requests(), func(r request) bool { return !r.isRemoval() || r.Response.Code >= 300 })
}

// verbs returns the verbs with which pods were removed, without duplicates.
func verbs(moves []request) []string {
	found := map[string]bool{}
	for _, move := range moves {
		found[move.Verb] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// removedPods returns the names of the removed pods, in order.
func removedPods(moves []request) []string {
	names := make([]string, 0, len(moves))
	for _, move := range moves {
		names = append(names, move.ObjectRef.Name)
	}
	return names
}
