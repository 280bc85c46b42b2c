# Bash completion for rknnctl. A row of options for each command.

_rknnctl_of_models=(
    run
    info
    dump
    perf
    memory
    report
    accuracy
    compare
    bench
    doctor
)
_rknnctl_commands=(
    "${_rknnctl_of_models[@]}"
    devices
    ping
    status
    top
    stats
    kill
    log
    trace
    record
    replay
)

_rknnctl_options()
{
    case $1 in
    global) options="--server --version --help" ;;
    run) options="--input --shape --row --output --layout --raw --loop --top --perf --core-mask --json --help" ;;
    info) options="--all --shape --dot --json --help" ;;
    devices) options="--json --network --watch --help" ;;
    ping) options="--count --json --help" ;;
    status) options="--json --help" ;;
    top) options="--interval --batch --count --help" ;;
    stats) options="--json --prometheus --help" ;;
    kill) options="--help" ;;
    doctor) options="--shape --json --help" ;;
    record) options="--output --help" ;;
    replay) options="--json --help" ;;
    trace) options="--output --seconds --help" ;;
    log) options="--lines --follow --level --help" ;;
    dump) options="--input --shape --row --output --layout --only --raw --json --help" ;;
    perf) options="--loop --warmup --input --shape --row --layout --seed --core-mask --json --csv --help" ;;
    bench) options="--loop --clients --warmup --input --shape --row --layout --seed --float --core-mask --json --help" ;;
    report) options="--output --golden --golden-server --input --shape --layout --loop --map --limit --help" ;;
    memory) options="--shape --json --help" ;;
    accuracy) options="--golden --input --list --shape --layout --map --golden-server --entire --limit --dump --json --csv --help" ;;
    compare) options="--with --input --list --shape --layout --map --entire --limit --dump --loop --json --csv --help" ;;
    esac
}

_rknnctl_command()
{
    local i
    command=
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        -s | --server) ((i++)) ;;
        -*) ;;
        : | = | tcp | unix | usb | adb | sim) ;;
        *)
            if [[ " ${_rknnctl_commands[*]} " == *" ${COMP_WORDS[i]} "* ]]; then
                command=${COMP_WORDS[i]}
                return
            fi
            ;;
        esac
    done
}

_rknnctl()
{
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command options
    COMPREPLY=()
    case $before in
    -s | --server) mapfile -t COMPREPLY < <(compgen -W "unix: tcp: usb: adb: sim:" -- "$word"); return ;;
    -l | --layout) mapfile -t COMPREPLY < <(compgen -W "nhwc nchw" -- "$word"); return ;;
    --core-mask) mapfile -t COMPREPLY < <(compgen -W "auto all 0 1 2 0_1 0_1_2" -- "$word"); return ;;
    -o | --output) mapfile -t COMPREPLY < <(compgen -d -- "$word"); return ;;
    -g | --golden | -L | --list) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
    -w | --with | -G | --golden-server) mapfile -t COMPREPLY < <(compgen -W "unix: tcp: usb: adb: sim:" -- "$word"); return ;;
    -d | --dump) mapfile -t COMPREPLY < <(compgen -d -- "$word"); return ;;
    -i | --input) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
    esac
    _rknnctl_command
    _rknnctl_options "${command:-global}"
    if [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
    elif [[ -z $command ]]; then
        mapfile -t COMPREPLY < <(compgen -W "${_rknnctl_commands[*]}" -- "$word")
    elif [[ " ${_rknnctl_of_models[*]} " == *" $command "* ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
}

complete -o filenames -F _rknnctl rknnctl
