"""Does in a tree what a page of docs/adding says.

A step is a heading "### N. `FILE`, new file" (or "at the end", "after `TEXT`", "before `TEXT`") and the fenced box below it. Other
headings are for people."""
import os
import pathlib
import re

STEP = re.compile(r"^### \d+\. `([^`]+)`, (new file|at the end|after `([^`]+)`|before `([^`]+)`)$\n"
                  r"(?:(?!###|```).*\n)*^```\w*\n([\s\S]*?)^```$", re.M)
LEFT_OUT = {"build", ".git", "__pycache__"}
HEADING = re.compile(r"^### \d+\. `", re.M)


class Unfit(Exception):
    """A page does not fit the tree any more."""


def steps(page):
    """(file, place, content) of each step of a page."""
    text = page.read_text()
    found = STEP.findall(text)
    if len(found) != len(HEADING.findall(text)):
        raise Unfit(f"{page}: a step that names a file has no box, or says its place in another way")
    return [(file, place, content) for file, place, _, _, content in found]


def insert(old, place, content):
    """The text with `content` at its place; None: there is no such place."""
    if place == "at the end":
        return old + content
    where, text = place.split(" ", 1)
    lines = old.splitlines(keepends=True)
    for i, line in enumerate(lines):
        if text.strip("`") in line:
            at = i + (where == "after")
            return "".join(lines[:at]) + content + "".join(lines[at:])
    return None


def apply(page, tree):
    """tree: path in it -> bytes; changed in place."""
    for file, place, content in steps(page):
        if (place == "new file") == (file in tree):
            raise Unfit(f"{page}: {file} {'is there already' if file in tree else 'is not there'}")
        new = content if place == "new file" else insert(tree[file].decode(), place, content)
        if new is None:
            raise Unfit(f"{page}: {file} has no line as in \"{place}\"")
        tree[file] = new.encode()


def source_files(source):
    for folder, folders, files in os.walk(source):
        folders[:] = [f for f in folders if f not in LEFT_OUT]
        for file in files:
            path = pathlib.Path(folder, file)
            if not path.is_symlink():
                yield path


def applied_to(source):
    """The source tree with all pages applied: path in it -> bytes."""
    tree = {str(p.relative_to(source)): p.read_bytes() for p in source_files(source)}
    for page in sorted((source / "docs/adding").glob("*.md")):
        apply(page, tree)
    return tree
