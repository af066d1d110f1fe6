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
	// mostUnpacked bounds what a few bytes can become.
	mostUnpacked = 64 << 20
)

// pack makes a text shorter. The same text is always the same bytes.
func pack(text string) string {
	var to bytes.Buffer
	writer := gzip.NewWriter(&to)
	_, _ = io.WriteString(writer, text) // a buffer takes everything
	_ = writer.Close()
	return base64.StdEncoding.EncodeToString(to.Bytes())
}

func unpack(text string) (string, error) {
	reader, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	if err != nil {
		return "", fmt.Errorf("unpack: %w", err)
	}
	unpacked, err := io.ReadAll(io.LimitReader(reader, mostUnpacked+1))
	if err != nil {
		return "", fmt.Errorf("unpack: %w", err)
	}
	if len(unpacked) > mostUnpacked {
		return "", fmt.Errorf("unpack: more than %d bytes", mostUnpacked)
	}
	return string(unpacked), nil
}
