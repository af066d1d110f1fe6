package link

const (
	prefaceBytes     = 24 // what every HTTP/2 client sends first
	frameHeaderBytes = 9
	dataFrame        = 0 // the type of frames that carry messages
)

// A frameScanner finds the frames in the byte stream of an HTTP/2 client, in pieces of any length.
type frameScanner struct {
	skip         int // bytes to ignore
	header       [frameHeaderBytes]byte
	headerLength int // bytes of the header so far
}

func newFrameScanner() frameScanner { return frameScanner{skip: prefaceBytes} }

// scan calls data with the length of each DATA frame whose header ends in this piece.
func (f *frameScanner) scan(chunk []byte, onData func(length int)) {
	for len(chunk) > 0 {
		if f.skip > 0 {
			skipped := min(f.skip, len(chunk))
			f.skip -= skipped
			chunk = chunk[skipped:]
			continue
		}
		copied := copy(f.header[f.headerLength:], chunk)
		f.headerLength += copied
		chunk = chunk[copied:]
		if f.headerLength == frameHeaderBytes {
			f.headerLength, f.skip = 0, int(f.header[0])<<16|int(f.header[1])<<8|int(f.header[2])
			if f.header[3] == dataFrame {
				onData(f.skip)
			}
		}
	}
}
