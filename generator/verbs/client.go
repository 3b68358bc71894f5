package verbs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// maxLine is the maximum length of a response.
const maxLine = 16 << 20

// A Client calls an agent. It is not safe for concurrent use.
type Client struct {
	conn io.ReadWriteCloser
	in   *bufio.Scanner
	next uint64
}

// NewClient returns the client of the agent at the other end of conn.
func NewClient(conn io.ReadWriteCloser) *Client {
	c := &Client{conn: conn, in: bufio.NewScanner(conn)}
	c.in.Buffer(make([]byte, 0, 1<<16), maxLine)
	return c
}

// Close closes the connection. Pending calls return an error.
func (c *Client) Close() error { return c.conn.Close() }

// Call sends one request and waits for its response. When ctx ends first, it closes the connection.
func (c *Client) Call(ctx context.Context, op string, params, result any) error {
	stop := context.AfterFunc(ctx, func() { _ = c.conn.Close() })
	defer stop()
	err := c.call(op, params, result)
	if err != nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		return fmt.Errorf("agent, %s: %w", op, err)
	}
	return nil
}

func (c *Client) call(op string, params, result any) error {
	c.next++
	request := Request{ID: c.next, Op: op}
	var err error
	if params != nil {
		if request.Params, err = json.Marshal(params); err != nil {
			return err
		}
	}
	line, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if _, err := c.conn.Write(append(line, '\n')); err != nil {
		return err
	}
	return c.answer(result)
}

// answer reads lines up to the response to the latest request and skips older ones.
func (c *Client) answer(result any) error {
	for c.in.Scan() {
		var response Response
		if err := json.Unmarshal(c.in.Bytes(), &response); err != nil {
			return fmt.Errorf("the answer is no JSON: %w", err)
		}
		switch {
		case response.ID != c.next:
			continue
		case response.Error != "":
			return errors.New(response.Error)
		case result == nil:
			return nil
		}
		return json.Unmarshal(response.Result, result)
	}
	return errors.Join(c.in.Err(), io.ErrUnexpectedEOF)
}

// ClockRatio returns the ratio of the agent's clock rate to this machine's, measured over at least span.
func (c *Client) ClockRatio(ctx context.Context, span time.Duration) (float64, error) {
	var first, last Hello
	if err := c.Call(ctx, OpHello, nil, &first); err != nil {
		return 0, err
	}
	from := time.Now()
	select {
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-time.After(span):
	}
	if err := c.Call(ctx, OpHello, nil, &last); err != nil {
		return 0, err
	}
	return float64(last.MonotonicNS-first.MonotonicNS) / float64(time.Since(from)), nil
}
