package compare

import (
	"cmp"
	"slices"
	"strings"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/rollout"
)

var Verify = cli.Verb{
	Name:    "verify",
	Args:    "FILE...",
	Summary: "is a finished file damaged?",
	Help: `Reads files that run wrote, trajectories and tapes, and compares every byte with
the hashes that they hold (of a .npy file, with those of FILE.npy.sha256 beside
it). Of a case folder it compares the files with its SHA256SUMS.

Exit code 0: no file is damaged. 1: one is; the state and realization, or the other
part, is named. 2: a file cannot be read, or is not of the kind that its name says;
the others are verified all the same. 3: nothing is damaged, but a file holds no
hashes, such as one that another program wrote.

example: refrun verify out.safetensors noise.safetensors my_case`,
	Run: verify,
}

func verify(c *cli.Command) error {
	c.Judges()
	if err := c.Parse(cli.Some); err != nil {
		return err
	}
	out := struct {
		OK    bool               `json:"ok"`
		Files []*rollout.Verdict `json:"files"`
	}{OK: true}
	differ := false
	var unread error // the first
	for _, path := range c.Pos {
		if of, ok := strings.CutSuffix(path, ".npy.sha256"); ok { // as a shell's * finds it
			path = of + ".npy"
		}
		v, err := rollout.Verify(path)
		if err != nil { // the others are looked at all the same
			v = &rollout.Verdict{File: path, Error: cli.Clean(err.Error())}
			unread = cmp.Or(unread, err)
		}
		out.Files = append(out.Files, v)
		out.OK = out.OK && v.OK
		differ = differ || v.Sealed && !v.OK
	}
	if slices.ContainsFunc(out.Files, func(v *rollout.Verdict) bool { return v.Error == "" }) {
		for _, v := range out.Files { // of none that can be read stderr says it
			printVerdict(c, v)
		}
	}
	if c.Json {
		if err := c.PrintJSON(out); err != nil {
			return err
		}
	}
	switch {
	case unread != nil:
		return unread
	case differ:
		return cli.ErrFailed
	case !out.OK:
		return cli.ErrNoPower
	}
	return nil
}

func printVerdict(c *cli.Command, v *rollout.Verdict) {
	name := cli.Clean(v.File)
	switch {
	case v.Error != "":
		c.Printf("%s: NOT VERIFIED: %s\n", name, strings.TrimPrefix(v.Error, name+": "))
	case !v.Sealed:
		c.Printf("%s: no digest inside: nothing could be verified\n", name)
	case v.OK && v.Digest != "":
		c.Printf("%s: ok, %s, digest %s (%s)\n", name, cli.Plural(v.States, "state"), v.Digest, v.Format)
	case v.OK:
		c.Printf("%s: ok, %s of %s\n",
			name, cli.Plural(v.States, map[string]string{"tape": "step", "case": "file"}[v.Kind]), "a "+v.Kind)
	}
	for _, d := range v.Differ {
		c.Printf("%s: DIFFERS: %s\n", name, cli.Clean(d))
	}
}
