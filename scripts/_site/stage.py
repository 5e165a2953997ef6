"""stage.py PROGRAM OUT: lays the documents out as pages of Sphinx, and makes those of verbs and packages.

A link to a file that is a page leads to that page. A link to any other file of the repository leads to the file there.
"""

import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = "https://github.com/refrun/refrun/blob/main/"
# The pages of the menu, by the file's path in the repository.
MENU = {
    "Begin": ["docs/README.md", "docs/validate-your-gpu.md", "docs/FAQ.md", "docs/PLATFORMS.md", "examples/README.md", "interop/python/README.md", "action/README.md"],
    "Judge": ["docs/ORACLE.md", "docs/KERNELS.md", "docs/networks.md", "docs/steps.md", "docs/TENSORCORES.md", "docs/NARROW.md", "docs/MOLECULES.md", "docs/REPORT.md"],
    "Compute": ["docs/ROLLOUTS.md", "docs/STUDY.md", "docs/DATASETS.md", "docs/ONNX.md", "docs/operators.md", "docs/NOISE.md", "docs/PERFORMANCE.md"],
    "Reference": ["docs/NUMERICS.md", "docs/FORMATS.md", "docs/CLAIMS.md", "interop/zoo/RESULTS.md", "docs/benchmarks/README.md"],
    "Project": ["CHANGELOG.md", "docs/ROADMAP.md", "CONTRIBUTING.md", "docs/RELEASING.md", "SECURITY.md", "oracle/internal/README.md", "internal/asm/README.md", "interop/zoo/README.md", "interop/suites/README.md", "interop/narrow/README.md"],
}
# A block of code, a link, or words of code: links are looked for outside of code.
TOKEN = re.compile(r"(?ms)^[ \t]*```.*?^[ \t]*```[ \t]*$|(!?\[[^\]]*\]\()([^)\s]+)(\))|`[^`\n]+`")


def page_of(path):
    """The page that a file becomes: README.md is the index, others keep their path."""
    return "index.md" if path == "README.md" else path


def moved(path, text, pages, out):
    """The text of a file with its links as the site has them. Pictures are copied."""
    def link(m):
        at, hash, anchor = m[2].partition("#")
        if re.match(r"[a-z]+:", m[2]) or not at:
            return m[0]
        to = posixpath.normpath(posixpath.join(posixpath.dirname(path), at))
        if m[1].startswith("!") or to.endswith((".svg", ".png")):
            (out / to).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / to, out / to)
        elif to not in pages:
            return m[1] + FILES + to + hash + anchor + m[3]
        return m[1] + posixpath.relpath(page_of(to), posixpath.dirname(page_of(path)) or ".") + hash + anchor + m[3]

    text = re.sub(r'<img src="([^"]*)"[^>]*alt="([^"]*)">', r"![\2](\1)", text)
    return TOKEN.sub(lambda m: link(m) if m[1] else m[0], text)


def toctree(caption, pages):
    return f"\n```{{toctree}}\n:caption: {caption}\n:hidden:\n\n" + "\n".join(p.removesuffix(".md") for p in pages) + "\n```\n"


def words(*command):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def block(text):
    return "````text\n" + text.rstrip() + "\n````\n"


def main(program, out):
    pages = {"README.md"} | {p for group in MENU.values() for p in group}
    help = words(program, "help")
    verbs = re.findall(r"(?m)^  refrun ([a-z]+)", help)
    made = {"verbs.md": "# The command\n\n" + block(help) + "".join(f"\n## refrun {v}\n\n" + block(words(program, v, "--help")) for v in verbs)}
    packages = [p for p in words("go", "list", "-f", "{{.ImportPath}} {{.Name}}", "./...").splitlines() if not re.search(r"/(internal|cmd|examples)\b| main$", p)]
    names = []
    for p in (line.split()[0] for line in packages):
        short = p.removeprefix("github.com/refrun/refrun").lstrip("/") or "refrun"
        names.append(f"api/{short}.md")
        made[names[-1]] = f"# Package {short}\n\n" + block(words("go", "doc", "-all", p))
    made["api/python.md"] = "# Package refrun of Python\n\n```{eval-rst}\n.. automodule:: refrun\n   :members:\n   :imported-members:\n```\n"
    index = moved("README.md", (ROOT / "README.md").read_text(encoding="utf-8"), pages, out)
    for caption, group in MENU.items():
        index += toctree(caption, group + (["verbs.md"] if caption == "Begin" else []))
    made["index.md"] = index + toctree("Packages", ["api/python.md"] + names)
    for path in pages - {"README.md"}:
        made[path] = moved(path, (ROOT / path).read_text(encoding="utf-8"), pages, out)
    for path, text in made.items():
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
