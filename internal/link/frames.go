package link

const (
	prefaceBytes     = 24 // what every HTTP/2 client sends first
	frameHeaderBytes = 9
	dataFrame        = 0 // the type of frames that carry messages
)

// A frameScanner finds the frames in the byte stream of an HTTP/2 client, in pieces of any length.
type frameScanner struct {
	skip   int // bytes to ignore
	header [frameHeaderBytes]byte
	have   int // bytes of the header so far
}

func newFrameScanner() frameScanner { return frameScanner{skip: prefaceBytes} }

// scan calls data with the length of each DATA frame whose header ends in this piece.
func (f *frameScanner) scan(piece []byte, data func(length int)) {
	for len(piece) > 0 {
		if f.skip > 0 {
			skipped := min(f.skip, len(piece))
			f.skip -= skipped
			piece = piece[skipped:]
			continue
		}
		copied := copy(f.header[f.have:], piece)
		f.have += copied
		piece = piece[copied:]
		if f.have == frameHeaderBytes {
			f.have, f.skip = 0, int(f.header[0])<<16|int(f.header[1])<<8|int(f.header[2])
			if f.header[3] == dataFrame {
				data(f.skip)
			}
		}
	}
}
