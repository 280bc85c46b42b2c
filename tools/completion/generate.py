#!/usr/bin/python3
"""Writes the tables of the completion files from what rknnctl says of itself.

usage: generate.py RKNNCTL [FOLDER]      (FOLDER: where the files are, and are written)
"""
import pathlib
import re
import subprocess
import sys
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
FILES = ("rknnctl.bash", "_rknnctl", "rknnctl.fish")
OPTION = re.compile(r"^  (?:-(\w), |    )--([a-z0-9-]+)(?: ([A-Z][A-Z=]*))? +(\S.*)$")
COMMAND = re.compile(r"^  ([a-z-]+) {2,}(\S.*)$")
CHOICES = {"LAYOUT": "nhwc nchw native", "CORES": "auto all 0 1 2 0_1 0_1_2", "FIT": "letterbox stretch crop",
           "TYPE": "float32 float16 int8 uint8 int16 uint16 int32 uint32 int64 bool",
           "LEVEL": "silent error warn info debug trace"}


@dataclass
class Option:
    letter: str
    name: str
    argument: str
    help: str


def say(rknnctl, *words):
    return subprocess.run([rknnctl, *words], capture_output=True, text=True, check=True).stdout


def section(text, title):
    """The lines below a heading, up to the next empty line."""
    return text.split(f"{title}:\n", 1)[1].split("\n\n")[0].splitlines()


def read_options(text):
    options = []
    for line in section(text, "Options"):
        match = OPTION.match(line)
        if match:
            options.append(Option(match[1] or "", match[2], match[3] or "", match[4]))
    return options


def read(rknnctl):
    """{command: (summary, options, usage)}, "global" for what stands before a command."""
    text = say(rknnctl, "--help")
    commands = {"global": ("", read_options(text), "")}
    for line in section(text, "Commands"):
        name, summary = COMMAND.match(line).groups()
        if name == "help":
            commands[name] = (summary, [], "")
            continue
        text = say(rknnctl, name, "--help")
        commands[name] = (summary, read_options(text), text.splitlines()[0])
    return commands


def schemes(commands):
    """How addresses of servers begin, by the help of --server."""
    server, = (option for option in commands["global"][1] if option.name == "server")
    return " ".join(re.findall(r"\b[a-z]+:", server.help))


def takes_files(usage):
    return bool(re.search(r"\b(MODEL|FILE|PROGRAM|REFERENCE)\b", re.sub(r"--?[a-z]\S* \S+", "", usage)))


def names(commands):
    return [name for name in commands if name != "global"]


# ---- bash ----

def bash(commands):
    values = {}
    for _, options, _ in commands.values():
        for option in options:
            if option.argument:
                spelt = f"--{option.name}" + (f" | -{option.letter}" if option.letter else "")
                values.setdefault(spelt, option.argument)
    rows = [f'_rknnctl_schemes="{schemes(commands)}"',
            "_rknnctl_commands=(", *(f"    {name}" for name in names(commands)), ")",
            "_rknnctl_with_files=(",
            *(f"    {name}" for name in names(commands) if takes_files(commands[name][2])), ")", "",
            "_rknnctl_options()", "{", "    case $1 in"]
    for name, (_, options, _) in commands.items():
        rows.append(f'    {name}) options="{" ".join("--" + o.name for o in options)}" ;;')
    rows += ["    esac", "}", "", "_rknnctl_value()", "{", "    value=", "    case $1 in"]
    rows += [f"    {spelt}) value={argument} ;;" for spelt, argument in sorted(values.items())]
    return rows + ["    esac", "}"]


# ---- zsh ----

def zsh_quote(text):
    return text.replace("'", "'\\''")


def zsh_text(text):
    return zsh_quote(re.sub(r"([\[\]:\\])", r"\\\1", text))


def zsh_value(argument):
    if argument in CHOICES:
        return f":{argument}:({CHOICES[argument]})"
    if argument == "URI":
        return ":URI:_rknnctl_uri"
    if argument == "DIR":
        return ":DIR:_files -/"
    return f":{argument}:_files" if argument in ("FILE", "MODEL") else f":{argument}: "


def zsh_option(option):
    tail = zsh_text(option.help) + "]" + (zsh_value(option.argument) if option.argument else "")
    spelt = [f"-{option.letter}"] * bool(option.letter) + [f"--{option.name}"]
    return [f"'*{word}{'=' if option.argument and word.startswith('--') else ''}[{tail}'" for word in spelt]


def zsh(commands):
    rows = ["_rknnctl_uri()", "{", f"    compadd -S '' -- {schemes(commands)}", "}", "",
            "_rknnctl_commands()", "{", "    local -a commands", "    commands=("]
    rows += [f"        '{name}:{zsh_text(commands[name][0])}'" for name in names(commands)]
    rows += ["    )", "    _describe command commands", "}", "", "_rknnctl_specs()", "{", "    case $1 in"]
    for name, (_, options, usage) in commands.items():
        rows += [f"    {name})", "        specs=("]
        rows += [f"            {word}" for option in options for word in zsh_option(option)]
        rows += ["        )", f"        others=({chr(39) + '*: :_files' + chr(39) if takes_files(usage) else ''})",
                 "        ;;"]
    return rows + ["    esac", "}"]


# ---- fish ----

def fish_quote(text):
    return text.replace("\\", "\\\\").replace("'", "\\'")


def fish_option(condition, option, uris):
    words = [f"complete -c rknnctl -n '{condition}'"]
    if option.letter:
        words.append(f"-s {option.letter}")
    words.append(f"-l {option.name}")
    if option.argument in CHOICES:
        words.append(f"-x -a '{CHOICES[option.argument]}'")
    elif option.argument == "URI":
        words.append(f"-x -a '{uris}'")
    elif option.argument in ("FILE", "DIR", "MODEL"):
        words.append("-r -F")
    elif option.argument:
        words.append("-x")
    return " ".join(words) + f" -d '{fish_quote(option.help)}'"


def fish(commands):
    rows, uris = [], schemes(commands)
    for name in names(commands):
        rows.append(f"complete -c rknnctl -n __fish_use_subcommand -a {name} -d '{fish_quote(commands[name][0])}'")
    rows += [fish_option("__fish_use_subcommand", option, uris) for option in commands["global"][1]]
    rows.append(f"complete -c rknnctl -n '__fish_seen_subcommand_from help' -a '{' '.join(names(commands))}'")
    for name in names(commands):
        condition = f"__fish_seen_subcommand_from {name}"
        if takes_files(commands[name][2]):
            rows.append(f"complete -c rknnctl -n '{condition}' -F")
        rows += [fish_option(condition, option, uris) for option in commands[name][1]]
    return rows


def write(path, rows):
    text = path.read_text()
    before, rest = text.split("# generated\n", 1)
    after = rest.split("# end", 1)[1]
    path.write_text(before + "# generated\n" + "\n".join(rows) + "\n# end" + after)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__.strip())
    folder = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else HERE
    commands = read(sys.argv[1])
    for name, rows in zip(FILES, (bash(commands), zsh(commands), fish(commands))):
        write(folder / name, rows)


if __name__ == "__main__":
    main()
