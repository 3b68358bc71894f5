package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"candela.dev/candela/packet"
)

// ConnectionsSchema names the format of connection files (design, "Outside interface").
const ConnectionsSchema = "candela.connections/v1"

// maxConnectionsFile bounds what is read: 16 MB are a hundred thousand connections.
const maxConnectionsFile = 16 << 20

// Write writes c as a candela.connections/v1 document.
func (c *Connections) Write(w io.Writer) error {
	all := c.All()
	if all == nil {
		all = []Connection{}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		Schema      string       `json:"schema"`
		Connections []Connection `json:"connections"`
	}{ConnectionsSchema, all})
}

// ReadConnections reads a candela.connections/v1 document. It is strict: unknown, repeated and missing keys, wrong
// types and numbers out of range are errors, with line and column and what is allowed, all of them at once.
func ReadConnections(r io.Reader) (*Connections, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxConnectionsFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxConnectionsFile {
		return nil, fmt.Errorf("connections file is larger than %d bytes", maxConnectionsFile)
	}
	d := &connectionsDecoder{data: data, dec: json.NewDecoder(bytes.NewReader(data))}
	d.dec.UseNumber()
	list := d.document()
	if len(d.errs) > 0 {
		return nil, errors.Join(d.errs...)
	}
	return NewConnections(list)
}

// connectionsDecoder reads the tokens of a document, to know the position of everything.
type connectionsDecoder struct {
	data []byte
	dec  *json.Decoder
	errs []error
	dead bool // the syntax is broken: nothing more can be read
}

// position returns line and column, from 1, of a byte offset.
func (d *connectionsDecoder) position(offset int64) string {
	before := d.data[:min(int(offset), len(d.data))]
	line := bytes.Count(before, []byte("\n")) + 1
	return fmt.Sprintf("%d:%d", line, len(before)-bytes.LastIndexByte(before, '\n'))
}

func (d *connectionsDecoder) problem(offset int64, format string, args ...any) {
	if !d.dead {
		d.errs = append(d.errs, fmt.Errorf("%s: %s", d.position(offset), fmt.Sprintf(format, args...)))
	}
}

// start returns the offset at which the next token starts.
func (d *connectionsDecoder) start() int64 {
	at := d.dec.InputOffset()
	for int(at) < len(d.data) && strings.IndexByte(" \t\r\n,:", d.data[at]) >= 0 {
		at++
	}
	return at
}

// token returns the next token and the offset at which it starts. After a syntax error it always returns nil.
func (d *connectionsDecoder) token() (json.Token, int64) {
	if d.dead {
		return nil, 0
	}
	at := d.start()
	tok, err := d.dec.Token()
	if err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the document ends too early")
		}
		d.problem(at, "not JSON: %v", err)
		d.dead = true
		return nil, at
	}
	return tok, at
}

// skip reads past a value whose first token was tok.
func (d *connectionsDecoder) skip(tok json.Token) {
	depth := 0
	for {
		switch tok {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 || d.dead {
			return
		}
		tok, _ = d.token()
	}
}

// object reads an object, calling member for every key that allowed lists; member must consume the value.
func (d *connectionsDecoder) object(path string, allowed, required []string, member func(key, path string)) {
	tok, start := d.token()
	if tok != json.Delim('{') {
		d.problem(start, "%s: want an object, found %s", path, describe(tok))
		d.skip(tok)
		return
	}
	seen := make(map[string]bool)
	for !d.dead && d.dec.More() {
		tok, at := d.token()
		key, _ := tok.(string)
		switch {
		case d.dead:
			return
		case !slices.Contains(allowed, key):
			d.problem(at, "%s: unknown key %q (allowed: %s)", path, key, strings.Join(allowed, ", "))
			d.skipValue()
			continue
		case seen[key]:
			d.problem(at, "%s: key %q appears twice", path, key)
			d.skipValue()
			continue
		}
		seen[key] = true
		member(key, path+"."+key)
	}
	d.token()
	for _, key := range required {
		if !seen[key] {
			d.problem(start, "%s: key %q is missing", path, key)
		}
	}
}

func (d *connectionsDecoder) skipValue() {
	tok, _ := d.token()
	d.skip(tok)
}

// array reads an array, calling element for every member; element must consume it.
func (d *connectionsDecoder) array(path string, element func(i int)) {
	tok, start := d.token()
	if tok != json.Delim('[') {
		d.problem(start, "%s: want an array, found %s", path, describe(tok))
		d.skip(tok)
		return
	}
	for i := 0; !d.dead && d.dec.More(); i++ {
		element(i)
	}
	d.token()
}

func (d *connectionsDecoder) str(path string) (string, int64) {
	tok, at := d.token()
	s, ok := tok.(string)
	if !ok {
		d.problem(at, "%s: want a string, found %s", path, describe(tok))
		d.skip(tok)
	}
	return s, at
}

func (d *connectionsDecoder) integer(path string, low, high int64) int64 {
	tok, at := d.token()
	n, ok := tok.(json.Number)
	if !ok {
		d.problem(at, "%s: want a whole number, found %s", path, describe(tok))
		d.skip(tok)
		return low
	}
	v, err := n.Int64()
	if err != nil || v < low || v > high {
		d.problem(at, "%s: %s is not a whole number from %d to %d", path, n, low, high)
		return low
	}
	return v
}

// describe names a token in the words of JSON.
func describe(tok json.Token) string {
	switch t := tok.(type) {
	case nil:
		return "null"
	case json.Delim:
		if t == '{' {
			return "an object"
		}
		return "an array"
	case string:
		return fmt.Sprintf("the string %q", t)
	case bool:
		return fmt.Sprintf("%t", t)
	}
	return fmt.Sprintf("%v", tok)
}

func (d *connectionsDecoder) document() []Connection {
	var list []Connection
	keys := []string{"schema", "connections"}
	d.object("document", keys, keys, func(key, path string) {
		if key == "schema" {
			if s, at := d.str(key); s != ConnectionsSchema {
				d.problem(at, "schema: %q is not %q", s, ConnectionsSchema)
			}
			return
		}
		d.array(key, func(i int) { list = append(list, d.connection(fmt.Sprintf("connections[%d]", i))) })
	})
	if !d.dead {
		if _, err := d.dec.Token(); err != io.EOF {
			d.problem(d.dec.InputOffset(), "something follows the document")
		}
	}
	return list
}

func (d *connectionsDecoder) connection(path string) Connection {
	var c Connection
	start, before := d.start(), len(d.errs)
	allowed := []string{"index", "verb", "verbs", "mtu", "timeout", "retry", "rnr_retry", "dscp", "cnp_dscp", "ecn",
		"mig_req",
		"requester", "responder"}
	d.object(path, allowed, []string{"index", "mtu", "requester", "responder"}, func(key, path string) {
		switch key {
		case "index":
			c.Index = int(d.integer(path, 1, 1<<30))
		case "verb":
			c.Verb, _ = d.str(path)
		case "verbs":
			d.array(path, func(i int) {
				v, _ := d.str(fmt.Sprintf("%s[%d]", path, i))
				c.Verbs = append(c.Verbs, v)
			})
		case "mtu":
			c.MTU = int(d.integer(path, 0, 1<<30))
		case "timeout":
			c.Timeout = d.setting(path, maxTimeout)
		case "retry":
			c.Retry = d.setting(path, maxRetry)
		case "rnr_retry":
			c.RNRRetry = d.setting(path, maxRetry)
		case "dscp":
			c.DSCP = d.setting(path, maxDSCP)
		case "cnp_dscp":
			c.CNPDSCP = d.setting(path, maxDSCP)
		case "ecn":
			c.ECN = d.setting(path, int64(packet.ECT0))
		case "mig_req":
			c.MigReq = d.setting(path, 1)
		case "requester":
			c.Requester = d.side(path)
		case "responder":
			c.Responder = d.side(path)
		}
	})
	if len(d.errs) == before {
		// NewConnections compares the index with the number of connections; the rest has a position here.
		for _, p := range c.problems(c.Index) {
			d.problem(start, "%s%s", path, p)
		}
	}
	return c
}

func (d *connectionsDecoder) setting(path string, most int64) *int {
	v := int(d.integer(path, 0, most))
	return &v
}

func (d *connectionsDecoder) side(path string) Side {
	var s Side
	keys := []string{"ip", "qpn", "ipsn"}
	d.object(path, keys, keys, func(key, path string) {
		switch key {
		case "ip":
			text, at := d.str(path)
			addr, err := netip.ParseAddr(text)
			if err != nil && text != "" {
				d.problem(at, "%s: %q is not an IPv4 or IPv6 address", path, text)
			}
			s.IP = addr.Unmap()
		case "qpn":
			s.QPN = packet.QPN(d.integer(path, 0, maxUint24))
		case "ipsn":
			s.IPSN = packet.PSN(d.integer(path, 0, maxUint24))
		}
	})
	return s
}
