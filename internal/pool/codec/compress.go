package codec

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
)

const (
	// compressAbove is the length above which a text is compressed. Shorter texts stay readable.
	compressAbove = 64 << 10
	// maxLedgerSize and maxRevisionSize limit the size of unpacked text. Any user who may edit the ConfigMap of a pool can store a compressed
	// text in its ledger, which takes several times as much memory once it is read. A revision has all jobs of a pool, and those of 16
	// ConfigMaps of 1 MiB are not shorter in a revision. That is more than fits into a ControllerRevision, unless the names are very
	// similar.
	maxLedgerSize, maxRevisionSize = 4 << 20, 16 << 20
)

// compress compresses a text. The same text always gives the same bytes.
func compress(text string) string {
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	_, _ = io.WriteString(writer, text) // a buffer accepts all writes
	_ = writer.Close()
	return base64.StdEncoding.EncodeToString(out.Bytes())
}

func decompress(text string, limit int) (string, error) {
	reader, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	if err != nil {
		return "", fmt.Errorf("unpack: %w", err)
	}
	content, err := io.ReadAll(io.LimitReader(reader, int64(limit)+1))
	if err != nil {
		return "", fmt.Errorf("unpack: %w", err)
	}
	if len(content) > limit {
		return "", fmt.Errorf("unpack: more than %d bytes", limit)
	}
	return string(content), nil
}
