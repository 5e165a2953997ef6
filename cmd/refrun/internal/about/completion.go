package about

import (
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
)

var Completion = cli.Verb{
	Name:    "completion",
	Args:    "bash|zsh|fish",
	Summary: "a script with which a shell completes verbs and flags",
	Help: `Prints a script for a shell, which completes the verbs, their flags, and names of
files. Bash and zsh read it in their profile:

  source <(refrun completion bash)        # in ~/.bashrc
  source <(refrun completion zsh)         # in ~/.zshrc
  refrun completion fish >~/.config/fish/completions/refrun.fish

example: refrun completion bash`,
	Run: completion,
}

func completion(c *cli.Command) error {
	if err := c.Parse(1); err != nil {
		return err
	}
	write, ok := map[string]func(w io.Writer, verbs []cli.Verb){
		"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion,
	}[c.Pos[0]]
	if !ok {
		return fmt.Errorf("%.60q: want bash, zsh or fish", c.Pos[0])
	}
	if c.Json {
		return fmt.Errorf("--json: a script is no JSON: want it without")
	}
	write(c.Stdout, c.All)
	return nil
}

// choices are the values that some flags take.
var choices = []struct{ flag, values string }{
	{"precision", "float64 float32 tf32 float16 bfloat16"},
	{"autocast", "cuda cpu"},
	{"isa", "auto avx512 avx2 neon purego"},
	{"arith", "exact fast"},
	{"store", "float64 float32 float16 bfloat16"},
	{"x0", "zeros white:"},
}

func bashCompletion(w io.Writer, verbs []cli.Verb) {
	var parts []string
	for _, v := range verbs {
		for _, part := range v.Parts {
			parts = append(parts, strings.TrimPrefix(part.Name, "dataset "))
		}
	}
	var values strings.Builder
	for _, c := range choices {
		fmt.Fprintf(&values, "\t--%s) words=%q ;;\n", c.flag, c.values)
	}
	fmt.Fprintf(w, `# Completes refrun: source <(refrun completion bash)
_refrun() {
	local cur=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]} words=
	COMPREPLY=()
	if [ "$COMP_CWORD" = 1 ]; then
		COMPREPLY=($(compgen -W "%s help" -- "$cur"))
		return
	fi
	if [ "$verb" = dataset ]; then
		if [ "$COMP_CWORD" = 2 ]; then
			COMPREPLY=($(compgen -W "%s" -- "$cur"))
			return
		fi
		verb="dataset ${COMP_WORDS[2]}"
	fi
	case ${COMP_WORDS[COMP_CWORD-1]} in
%s	esac
	if [ "$words" ]; then
		COMPREPLY=($(compgen -W "$words" -f -- "$cur"))
		return
	fi
	case $verb in
`, strings.Join(cli.VerbNames(verbs), " "), strings.Join(parts, " "), values.String())
	cli.EachVerb(verbs, func(v cli.Verb, flags []*flag.Flag) {
		var words []string
		for _, f := range flags {
			words = append(words, cli.Dashed(f))
		}
		if v.Name == "completion" {
			words = append(words, "bash", "zsh", "fish")
		}
		fmt.Fprintf(w, "\t%q) words=%q ;;\n", v.Name, strings.Join(words, " "))
	})
	fmt.Fprintf(w, `	help) words=%q ;;
	esac
	COMPREPLY=($(compgen -W "$words" -- "$cur"))
	case $cur in
	-*) ;;
	*) COMPREPLY+=($(compgen -f -- "$cur")) ;;
	esac
}
complete -o filenames -F _refrun refrun
`, strings.Join(cli.VerbNames(verbs), " "))
}

func zshCompletion(w io.Writer, verbs []cli.Verb) {
	fmt.Fprint(w, "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\nautoload -Uz bashcompinit "+
		"&& bashcompinit\n")
	bashCompletion(w, verbs)
}

func fishCompletion(w io.Writer, verbs []cli.Verb) {
	quoted := func(s string) string {
		return "'" + strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), "'", `\'`) + "'"
	}
	fmt.Fprint(w, "# Completes refrun: refrun completion fish >~/.config/fish/completions/refrun.fish\n")
	for _, v := range verbs {
		fmt.Fprintf(w, "complete -c refrun -n __fish_use_subcommand -f -a %s -d %s\n", v.Name, quoted(v.Summary))
	}
	cli.EachVerb(verbs, func(v cli.Verb, flags []*flag.Flag) {
		of, part, inner := strings.Cut(v.Name, " ")
		seen := "__fish_seen_subcommand_from " + of
		if inner {
			fmt.Fprintf(w, "complete -c refrun -n '%s' -f -a %s -d %s\n", seen, part, quoted(v.Summary))
			seen += "; and __fish_seen_subcommand_from " + part
		}
		for _, f := range flags {
			_, text := flag.UnquoteUsage(f)
			kind := "-l"
			if len(f.Name) == 1 {
				kind = "-s"
			}
			takes := " -r" // a value, which is a file's name where nothing else is known
			if b, ok := f.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
				takes = ""
			}
			for _, c := range choices {
				if c.flag == f.Name {
					takes = " -r -a " + quoted(c.values)
				}
			}
			fmt.Fprintf(w, "complete -c refrun -n '%s' %s %s%s -d %s\n", seen, kind, f.Name, takes, quoted(text))
		}
	})
	fmt.Fprintf(w, "complete -c refrun -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n")
	fmt.Fprintf(w, "complete -c refrun -n __fish_use_subcommand -f -a help -d 'what a verb does'\n")
	fmt.Fprintf(w, "complete -c refrun -n '__fish_seen_subcommand_from help' -f -a '%s'\n",
		strings.Join(cli.VerbNames(verbs), " "))
}
