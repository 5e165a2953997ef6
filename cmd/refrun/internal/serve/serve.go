package serve

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/setup"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/ground/memory"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

var Verb = cli.Verb{
	Name:    "serve",
	Args:    "",
	Summary: "answer another program on stdin and stdout (refrun.reference in Python)",
	Help: `Applies one operator for another program, as often as it asks. Python's
refrun.reference and refrun.run start it; docs/FORMATS.md has the messages.

A message is its length, 8 bytes little-endian, and a safetensors file; the first
one opens an operator. It ends when stdin does, or when its parent has died. A
Ctrl-C is left to the parent.

example: refrun serve <messages >answers`,
	Run: serve,
}

func serve(c *cli.Command) error {
	if err := c.Parse(0); err != nil {
		return err
	}
	if c.Json {
		return errors.New("--json: the answers are safetensors files: want it without")
	}
	signal.Ignore(os.Interrupt)
	defer signal.Reset(os.Interrupt)
	defer followParent()()
	in, all := &messages{r: cli.Stdin}, sessions{}
	out := bufio.NewWriterSize(c.Stdout, 1<<20) // an answer of a state is one write, which wakes its reader once
	for {
		request, err := in.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		tensors, said, err := all.answer(request)
		if err != nil {
			tensors, said = nil, map[string]string{"error": cli.Clean(strings.TrimPrefix(err.Error(), "--"))}
		}
		if err := send(out, tensors, said); err != nil {
			return err
		}
	}
}

// followParent ends this process soon after the one that started it, until stop is called. A pipe
// that ends would say so too, but not while a long rollout is at work, nor where another child has
// inherited it.
func followParent() (stop func()) {
	done, parent := make(chan struct{}), os.Getppid()
	go func() {
		for tick := time.Tick(200 * time.Millisecond); ; {
			select {
			case <-done:
				return
			case <-tick:
				if os.Getppid() != parent {
					os.Exit(cli.ExitInterrupted)
				}
			}
		}
	}()
	return func() { close(done) }
}

// mostMessage is how long a message may be: 2^31 numbers of a state, and weights.
const mostMessage = 32 << 30

// messages reads messages, each of which lives until the next one is read.
type messages struct {
	r io.Reader
	b bytes.Buffer
}

func (m *messages) next() (*safetensors.File, error) {
	var length [8]byte
	if _, err := io.ReadFull(m.r, length[:]); err != nil {
		if err == io.ErrUnexpectedEOF {
			err = errors.New("stdin: ends within a message's length")
		}
		return nil, err
	}
	size := binary.LittleEndian.Uint64(length[:])
	if size > mostMessage {
		return nil, fmt.Errorf("stdin: a message of %d bytes: want at most %d: its length and a safetensors file",
			size, mostMessage)
	}
	if err := memory.Fits(int64(size)); err != nil {
		return nil, fmt.Errorf("stdin: a message of %d bytes: it %w", size, err)
	}
	m.b.Reset()
	if _, err := io.CopyN(&m.b, m.r, int64(size)); err != nil { // memory grows with what comes
		return nil, fmt.Errorf("stdin: %d bytes of a message of %d: %w", m.b.Len(), size, err)
	}
	f, err := safetensors.Parse("message", m.b.Bytes())
	if err != nil {
		return nil, fmt.Errorf("stdin: %w", err)
	}
	return f, nil
}

// send writes one message.
func send(w *bufio.Writer, tensors []*safetensors.Tensor, said map[string]string) error {
	header, err := safetensors.Header(tensors, said)
	if err != nil {
		return err
	}
	size := len(header)
	for _, t := range tensors {
		size += len(t.Bytes())
	}
	w.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(size)), header...))
	for _, t := range tensors {
		w.Write(t.Bytes())
	}
	return w.Flush() // it remembers the first error
}

// mostSessions is how many operators may be open at once.
const mostSessions = 64

// sessions are the operators that were opened, by the "id" that the client gave them.
type sessions map[string]*session

func (all sessions) answer(m *safetensors.File) ([]*safetensors.Tensor, map[string]string, error) {
	s := all[m.Metadata["id"]]
	switch do := m.Metadata["do"]; {
	case do == "open":
		if s = new(session); len(all) >= mostSessions {
			return nil, nil, fmt.Errorf("id: %d operators are open: want at most %d", len(all), mostSessions)
		}
		said, err := s.open(m)
		if err == nil {
			all[m.Metadata["id"]] = s
		}
		return nil, said, err
	case do != "apply" && do != "run" && do != "check":
		return nil, nil, fmt.Errorf("do: %.60q: want open, apply, run or check", do)
	case s == nil:
		return nil, nil, fmt.Errorf("do: %s: no operator: want open first", do)
	case do == "apply":
		y, took, err := s.apply(m)
		return y, map[string]string{"seconds": fmt.Sprint(took.Seconds())}, err
	case do == "check":
		said, err := s.checkForces(m)
		return nil, said, err
	case s.net != nil:
		return nil, nil, errors.New("do: run: a network has no steps: want an operator")
	default:
		return s.run(m)
	}
}

// session is an operator that was opened, in one mode, or a network.
type session struct {
	net    *servedNetwork
	cs     *rollout.Case
	op     *operator.Operator
	mode   graph.Mode
	noise  string
	stream *rollout.Stream
	step   int // applications so far, which a stream's draws are of
}

// open reads the case in a folder, or the one of the message: the text of a case.json and the
// weights as tensors; or a network.
func (s *session) open(m *safetensors.File) (said map[string]string, err error) {
	if m.Metadata["graph"] != "" {
		return s.openNetwork(m)
	}
	cs := new(rollout.Case)
	if dir := m.Metadata["folder"]; dir != "" {
		cs, err = rollout.OpenCase(dir)
	} else if cs, err = rollout.ParseCase("case", []byte(m.Metadata["case"])); err == nil {
		cs.Weights, err = owned(m)
	}
	if err != nil {
		return nil, err
	}
	mode, _, err := setup.Arithmetic{Precision: m.Metadata["precision"], Autocast: m.Metadata["autocast"],
		Arith: ""}.Mode(cs)
	if err != nil {
		return nil, err
	}
	op, err := cs.NewOperator()
	if err != nil {
		return nil, err
	}
	stream, err := cs.OpenStream(m.Metadata["noise"], op, mode)
	if err != nil {
		return nil, err
	}
	*s = session{cs: cs, op: op, mode: mode, noise: m.Metadata["noise"], stream: stream}
	_, channels := op.Draws()
	return map[string]string{
		"mode": cs.Rollout.ModeName(op, mode, stream), "noise": stream.Name, "contract": graph.Contract,
		"version": cli.Version, "draws": fmt.Sprint(channels), "draw_format": op.NoiseFormat(mode).String(),
	}, nil
}

// owned returns a message's tensors in memory of their own.
func owned(m *safetensors.File) (*safetensors.File, error) {
	var tensors []*safetensors.Tensor
	for _, name := range m.Names() {
		t, err := m.Tensor(name)
		if err != nil {
			return nil, err
		}
		tensors = append(tensors, t)
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, tensors, nil); err != nil {
		return nil, err
	}
	return safetensors.Parse("weights", b.Bytes())
}

// apply applies the operator to "input" [N,C,H,W], with the draws "draw0", "draw1", ... if they
// are given, or else with those of the stream. It also returns how long the operator took.
func (s *session) apply(m *safetensors.File) ([]*safetensors.Tensor, time.Duration, error) {
	if s.net != nil {
		return s.net.apply(m)
	}
	x, err := s.input(m)
	if err != nil {
		return nil, 0, err
	}
	var draws noise.Draws
	if _, err := m.Tensor("draw0"); err == nil {
		draws = &given{m: m}
	} else if s.op.HasNoise() {
		s.step++
		if draws, err = s.stream.Draws(0, 0, x.N(), s.step); err != nil {
			return nil, 0, err
		}
	}
	began := time.Now()
	p := s.op.Borrow(s.mode, x.N(), x.H(), x.W())
	defer s.op.Return(p)
	y := p.Result()
	if err := p.Forward(y, x, draws, noise.Time{}); err != nil {
		return nil, 0, err
	}
	took := time.Since(began)
	t, err := safetensors.OfFloat64s("output", safetensors.DTypeOf(y.Format), y.Shape, y.Data)
	return []*safetensors.Tensor{t}, took, err
}

// input returns the operator's input of a message.
func (s *session) input(m *safetensors.File) (*tensor.Tensor, error) {
	t, err := m.Tensor("input")
	if err != nil {
		return nil, err
	}
	f, ok := t.DType.Format()
	switch wide := s.mode.Wide(); {
	case len(t.Shape) != 4 || t.Len() == 0:
		return nil, fmt.Errorf("input: shape %v: want [N,C,H,W]", t.Shape)
	case t.Shape[1] != s.op.Config.InputChannels:
		return nil, fmt.Errorf("input: shape %v: want [N,%d,H,W]%s",
			t.Shape, s.op.Config.InputChannels, lastChannels(t.Shape, s.op.Config.InputChannels))
	case !ok || f == fp16.Float64 && wide != f:
		return nil, fmt.Errorf("input: %s numbers: want %v, or the precision float64", t.DType, wide)
	case wide == fp16.Float64:
		f = wide
	}
	if err := setup.Fits(t.Shape[0], rollout.Shape{C: t.Shape[1], H: t.Shape[2], W: t.Shape[3]},
		"a smaller N"); err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	data, err := t.Float64s()
	if err != nil {
		return nil, err
	}
	return tensor.Of(f, data, t.Shape...), nil
}

// lastChannels is a hint where the channels stand last.
func lastChannels(shape []int, channels int) string {
	if shape[3] == channels {
		return "; these look like [N,H,W,C]"
	}
	return ""
}

// given are the draws of a message, in order.
type given struct {
	m *safetensors.File
	n int
}

func (g *given) Draw(kind noise.Kind, _ float64, shape []int, dst []float64) error {
	name := fmt.Sprintf("draw%d", g.n)
	g.n++
	t, err := g.m.Tensor(name)
	if err != nil {
		return err
	}
	if t.Len() != len(dst) || len(t.Shape) < 2 || t.Shape[0] != shape[0] || t.Shape[1] != shape[1] {
		return fmt.Errorf("%s: shape %v: want %v of %v numbers", name, t.Shape, shape, kind)
	}
	if err := t.Read(0, dst); err != nil {
		return err
	}
	for i, v := range dst { // draws are float32 numbers in every mode
		dst[i] = float64(float32(v))
	}
	return nil
}
