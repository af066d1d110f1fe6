// Package audit reads the audit log of our own development cluster: the requests of one client, as the API server has seen them.
package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ErrNoLog is returned on a cluster without an audit log.
var ErrNoLog = errors.New("no audit log: run in `bin/devcluster run --audit -- ...`")

// A Request is one line of the log.
type Request struct {
	Verb      string
	UserAgent string
	Object    struct{ Resource, Subresource, Namespace, Name string } `json:"objectRef"`
	Response  Response                                                `json:"responseStatus"`
	Received  time.Time                                               `json:"requestReceivedTimestamp"`
	Answered  time.Time                                               `json:"stageTimestamp"`
}

// A Response is what the API server answered. Only errors have a message.
type Response struct {
	Code    int
	Message string
}

func (r Request) String() string {
	return fmt.Sprintf("%s %s %s %s/%s: %d", r.Received.Format("15:04:05.000"), r.Verb, r.Object.Resource, r.Object.Namespace, r.Object.Name, r.Response.Code)
}

// Writes reports whether the request changes an object. Lease renewals do not count: every replica makes them.
func (r Request) Writes() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb) && r.Object.Resource != "leases"
}

// Requests returns what the client with this user agent has requested so far, in the order of arrival.
func Requests(userAgent string) ([]Request, error) {
	folder := os.Getenv("DEVCLUSTER_DATA")
	if folder == "" {
		return nil, ErrNoLog
	}
	files, err := filepath.Glob(filepath.Join(folder, "logs/control-plane/audit-1*.log")) // it is rotated
	if err != nil || len(files) == 0 {
		return nil, ErrNoLog
	}
	var found []Request
	for _, file := range files {
		more, err := read(file, userAgent)
		if err != nil {
			return nil, fmt.Errorf("read audit log %q: %w", file, err)
		}
		found = append(found, more...)
	}
	slices.SortFunc(found, func(a, b Request) int { return a.Received.Compare(b.Received) })
	return found, nil
}

func read(path, userAgent string) ([]Request, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var found []Request
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var one Request
		if !bytes.Contains(lines.Bytes(), []byte(userAgent)) || json.Unmarshal(lines.Bytes(), &one) != nil { // the last line may be incomplete
			continue
		}
		if strings.HasPrefix(one.UserAgent, userAgent) {
			found = append(found, one)
		}
	}
	return found, lines.Err()
}
