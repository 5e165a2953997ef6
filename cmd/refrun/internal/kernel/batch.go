package kernel

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/internal/ground/fault"
)

// mostQuestion bounds a line of a batch, in bytes.
const mostQuestion = 1 << 20

// answer is what a batch prints for a question: the exit code of `refrun kernel --json` and what it prints, or why it
// prints nothing.
type answer struct {
	Exit   int             `json:"exit"`
	Report json.RawMessage `json:"report,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// judgeBatch answers the questions of a file of JSON lines, or of stdin ("-"), in one process. A line has the arguments
// of one question, which are added to those that stand beside --batch. Each answer is printed before the next line is
// read.
func judgeBatch(c *cli.Command, path string) error {
	from := cli.Stdin
	if path != "-" {
		f, err := disk.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		from = f
	}
	shared, exits := shared(c), map[int]int{}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, mostQuestion)
	for lines.Scan() {
		a, err := ask(c, shared, lines.Bytes())
		if err != nil {
			a = answer{Exit: cli.ExitUsage, Error: err.Error()}
		}
		exits[a.Exit]++
		text, err := json.Marshal(a)
		if err != nil {
			return err
		}
		if _, err := c.Stdout.Write(append(fault.PlainJSON(text), '\n')); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w: want JSON lines of at most %d bytes", path, err, mostQuestion)
	}
	switch {
	case exits[cli.ExitUsage] > 0:
		return fmt.Errorf("%s: %s not answered: their lines say why", path, cli.Plural(exits[cli.ExitUsage], "question"))
	case exits[cli.ExitFailed] > 0:
		return cli.ErrFailed
	case exits[cli.ExitNoPower] > 0:
		return cli.ErrNoPower
	}
	return nil
}

// shared are the flags beside --batch, which all questions have.
func shared(c *cli.Command) (args []string) {
	c.Flags.Visit(func(f *flag.Flag) {
		values := cli.List{f.Value.String()}
		switch of, several := f.Value.(*cli.List); {
		case f.Name == "batch":
			return
		case several:
			values = *of
		}
		for _, v := range values {
			args = append(args, "--"+f.Name+"="+v)
		}
	})
	return args
}

// ask answers one question.
func ask(c *cli.Command, shared []string, line []byte) (answer, error) {
	var args []string
	if err := json.Unmarshal(line, &args); err != nil {
		return answer{}, errors.New(`want a list of a question's arguments, such as ["run.safetensors", "--op", "softmax"]`)
	}
	if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(strings.TrimLeft(a, "-"), "batch") }) {
		return answer{}, errors.New("--batch: in a question of a batch: want the question's own arguments")
	}
	var report, complaint, compact bytes.Buffer
	code := cli.Main(c.All, slices.Concat([]string{c.Name}, shared, []string{"--json"}, args), &report, &complaint)
	if code == cli.ExitUsage {
		return answer{}, errors.New(strings.TrimPrefix(strings.TrimSpace(complaint.String()), "refrun "+c.Name+": "))
	}
	if err := json.Compact(&compact, report.Bytes()); err != nil { // --help prints none
		return answer{}, errors.New("no question: want a file and --op or --graph")
	}
	return answer{Exit: code, Report: compact.Bytes()}, nil
}
