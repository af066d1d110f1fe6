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
	// long is from where on a text is packed: below it people can read it.
	long = 64 << 10
	// mostLedger and mostRevision bound what a few bytes can become. Whoever may edit the ConfigMap of a pool can pack any text into its ledger, which
	// takes several times as much memory once it is read. Revisions have every job of a pool: those of 16 ConfigMaps of 1 MiB, which do not get shorter in a
	// revision. That is more than fits into a ControllerRevision, unless the names are much alike.
	mostLedger, mostRevision = 4 << 20, 16 << 20
)

// pack makes a text shorter. The same text is always the same bytes.
func pack(text string) string {
	var to bytes.Buffer
	writer := gzip.NewWriter(&to)
	_, _ = io.WriteString(writer, text) // a buffer takes everything
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
