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
	UserAgent string
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
	files, err := filepath.Glob(filepath.Join(folder, "logs/control-plane/audit-1*.log")) // the log is rotated
	if err != nil || len(files) == 0 {
		return nil, ErrNoLog
	}
	var requests []Request
	for _, file := range files {
		more, err := readFile(file, userAgent)
		if err != nil {
			return nil, fmt.Errorf("read audit log %q: %w", file, err)
		}
		requests = append(requests, more...)
	}
	slices.SortFunc(requests, func(a, b Request) int { return a.Received.Compare(b.Received) })
	return requests, nil
}

func readFile(path, userAgent string) ([]Request, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var requests []Request
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var request Request
		if !bytes.Contains(lines.Bytes(), []byte(userAgent)) || json.Unmarshal(lines.Bytes(),
			&request) != nil { // the last line may be incomplete
			continue
		}
		if strings.HasPrefix(request.UserAgent, userAgent) {
			requests = append(requests, request)
		}
	}
	return requests, lines.Err()
}
