// Package audit reads the audit log of our own development cluster: the requests of one client, as the API server recorded them.
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
	URI       string `json:"requestURI"`
	UserAgent string
	User      struct{ Username string }
	Object    struct{ Resource, Subresource, Namespace, Name string } `json:"objectRef"`
	Response  Response                                                `json:"responseStatus"`
	Received  time.Time                                               `json:"requestReceivedTimestamp"`
	Answered  time.Time                                               `json:"stageTimestamp"`
}

// A Response is the response of the API server. Only errors have a message.
type Response struct {
	Code    int
	Message string
}

func (r Request) String() string {
	return fmt.Sprintf("%s %s %s %s/%s: %d", r.Received.Format("15:04:05.000"), r.Verb, r.Object.Resource, r.Object.Namespace, r.Object.Name,
		r.Response.Code)
}

// IsWrite reports whether the request changes an object. Lease renewals do not count: every replica makes them.
func (r Request) IsWrite() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb) && r.Object.Resource != "leases"
}

// Requests returns the requests of the client with this user agent so far, in the order of arrival.
func Requests(userAgent string) ([]Request, error) {
	folder := os.Getenv("DEVCLUSTER_DATA")
	if folder == "" {
		return nil, ErrNoLog
	}
	requests, err := Read(filepath.Join(folder, "logs/control-plane/audit-1.log"), Filter{UserAgent: userAgent})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(requests, func(a, b Request) int { return a.Received.Compare(b.Received) })
	return requests, nil
}

// A Filter selects requests by the beginning of their user agent, by user, and by time. What is empty selects all.
type Filter struct {
	UserAgent, Username string
	Since               time.Time
}

func (f Filter) selects(r Request) bool {
	return strings.HasPrefix(r.UserAgent, f.UserAgent) && (f.Username == "" || r.User.Username == f.Username) && !r.Received.Before(f.Since)
}

// Read returns requests from a log, and from the logs beside it that it has replaced, in the order in which they were written.
func Read(log string, filter Filter) ([]Request, error) {
	files, err := filepath.Glob(strings.TrimSuffix(log, ".log") + "*.log")
	if err != nil || len(files) == 0 {
		return nil, ErrNoLog
	}
	var requests []Request
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || info.ModTime().Before(filter.Since) {
			continue
		}
		more, err := readFile(file, filter)
		if err != nil {
			return nil, fmt.Errorf("read audit log %q: %w", file, err)
		}
		requests = append(requests, more...)
	}
	return requests, nil
}

func readFile(path string, filter Filter) ([]Request, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var requests []Request
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if !bytes.Contains(lines.Bytes(), []byte(filter.UserAgent)) || !bytes.Contains(lines.Bytes(), []byte(filter.Username)) {
			continue // without the cost of decoding
		}
		var request Request
		if json.Unmarshal(lines.Bytes(), &request) == nil && filter.selects(request) { // the last line may be incomplete
			requests = append(requests, request)
		}
	}
	return requests, lines.Err()
}
