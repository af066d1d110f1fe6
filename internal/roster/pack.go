package roster

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
)

const (
	// long is the length above which a text is compressed. Shorter texts stay readable.
	long = 64 << 10
	// mostLedger and mostRevision limit the size of unpacked text. Any user who may edit the ConfigMap of a pool can store a compressed
	// text in its ledger, which takes several times as much memory once it is read. A revision has all jobs of a pool, and those of 16
	// ConfigMaps of 1 MiB are not shorter in a revision. That is more than fits into a ControllerRevision, unless the names are very
	// similar.
	mostLedger, mostRevision = 4 << 20, 16 << 20
)

// pack compresses a text. The same text always gives the same bytes.
func pack(text string) string {
	var to bytes.Buffer
	writer := gzip.NewWriter(&to)
	_, _ = io.WriteString(writer, text) // a buffer accepts all writes
	_ = writer.Close()
	return base64.StdEncoding.EncodeToString(to.Bytes())
}

func unpack(text string, most int) (string, error) {
	reader, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	if err != nil {
		return "", fmt.Errorf("unpack: %w", err)
	}
	unpacked, err := io.ReadAll(io.LimitReader(reader, int64(most)+1))
	if err != nil {
		return "", fmt.Errorf("unpack: %w", err)
	}
	if len(unpacked) > most {
		return "", fmt.Errorf("unpack: more than %d bytes", most)
	}
	return string(unpacked), nil
}
