# Bash completion for rknnctl. The tables come from generate.py.

# generated
_rknnctl_schemes="unix: tcp: tls: usb: adb: sim: emu: open:"
_rknnctl_commands=(
    run
    info
    devices
    pair
    ping
    status
    top
    stats
    kill
    log
    trace
    record
    replay
    doctor
    model
    dump
    perf
    memory
    accuracy
    compare
    report
    quantize
    bench
    board-test
    help
)
_rknnctl_with_files=(
    run
    info
    stats
    record
    replay
    doctor
    dump
    perf
    memory
    accuracy
    compare
    report
    quantize
    bench
    board-test
)

_rknnctl_options()
{
    case $1 in
    global) options="--server --version --help" ;;
    run) options="--input --layout --fit --pad --type --pass-through --shape --shape-set --core-mask --output --raw --loop --top --perf --json --server --version --help" ;;
    info) options="--all --shape --json --dot --lint --csv --fail-findings --server --version --help" ;;
    devices) options="--json --csv --watch --network --server --version --help" ;;
    pair) options="--listen --identity --file --daemon-port --wait --server --version --help" ;;
    ping) options="--loop --json --server --version --help" ;;
    status) options="--limits --settings --json --server --version --help" ;;
    top) options="--interval --batch --loop --json --server --version --help" ;;
    stats) options="--json --prometheus --output --server --version --help" ;;
    kill) options="--server --version --help" ;;
    log) options="--lines --follow --level --json --server --version --help" ;;
    trace) options="--output --seconds --server --version --help" ;;
    record) options="--output --server --version --help" ;;
    replay) options="--allow-cut --json --server --version --help" ;;
    doctor) options="--shape --json --server --version --help" ;;
    model) options="--labels --default --unchecked --output --json --csv --server --version --help" ;;
    dump) options="--input --layout --fit --pad --type --pass-through --shape --shape-set --core-mask --output --only --raw --json --csv --server --version --help" ;;
    perf) options="--loop --warmup --input --layout --fit --pad --type --pass-through --shape --shape-set --core-mask --seed --sort --json --csv --server --version --help" ;;
    memory) options="--shape --json --csv --server --version --help" ;;
    accuracy) options="--golden --input --layout --fit --pad --type --pass-through --list --shape --shape-set --core-mask --map --golden-server --entire --limit --fail-above --dump --json --csv --server --version --help" ;;
    compare) options="--with --input --layout --fit --pad --type --pass-through --list --shape --shape-set --core-mask --map --entire --limit --fail-above --dump --loop --warmup --seed --json --csv --server --version --help" ;;
    report) options="--output --golden --golden-server --input --layout --fit --pad --type --pass-through --shape --shape-set --core-mask --loop --warmup --seed --map --limit --server --version --help" ;;
    quantize) options="--dataset --output --algorithm --method --dtype --target --batch-size --symmetric --mean --std --rgb2bgr --keep-float --int16 --optimization-level --without --auto-hybrid --goal --hybrid-type --hybrid-step1 --hybrid-step2 --report --write-float --external-data --dumps --all-values --clients --state --layout --fit --pad --type --shape --json --server --version --help" ;;
    bench) options="--loop --clients --concurrency --duration --rate --samples --report --warmup --input --layout --fit --pad --type --pass-through --shape --shape-set --core-mask --seed --float --fail-below --fail-p99-above --json --csv --server --version --help" ;;
    board-test) options="--output --page --probe --way --probes --chip --models --journal --json --server --version --help" ;;
    help) options="" ;;
    esac
}

_rknnctl_value()
{
    value=
    case $1 in
    --algorithm) value=NAME ;;
    --batch-size) value=N ;;
    --chip) value=CHIP ;;
    --clients) value=N ;;
    --concurrency) value=RANGE ;;
    --core-mask | -c) value=CORES ;;
    --daemon-port) value=N ;;
    --dataset) value=FILE ;;
    --dtype) value=NAME ;;
    --dump) value=DIR ;;
    --duration) value=SECONDS ;;
    --fail-above) value=PERCENT ;;
    --fail-below) value=FPS ;;
    --fail-findings) value=N ;;
    --fail-p99-above) value=MS ;;
    --file) value=FILE ;;
    --fit) value=FIT ;;
    --goal) value=GOAL ;;
    --golden | -g) value=MODEL ;;
    --golden-server) value=URI ;;
    --hybrid-step1) value=FILE ;;
    --hybrid-step2) value=FILE ;;
    --hybrid-type) value=NAME ;;
    --identity) value=NAME ;;
    --input | -i) value=FILE ;;
    --int16) value=NODE ;;
    --interval) value=MS ;;
    --journal) value=FILE ;;
    --keep-float) value=NODE ;;
    --labels) value=FILE ;;
    --layout | -l) value=LAYOUT ;;
    --level) value=LEVEL ;;
    --limit) value=PERCENT ;;
    --lines) value=N ;;
    --list) value=FILE ;;
    --loop | -n) value=N ;;
    --map) value=NAME=OTHER ;;
    --mean) value=NUMBERS ;;
    --method) value=NAME ;;
    --models) value=FOLDER ;;
    --only) value=NAME ;;
    --optimization-level) value=N ;;
    --output | -o) value=DIR ;;
    --pad) value=COLOUR ;;
    --page) value=FILE ;;
    --probe) value=NAME ;;
    --rate) value=FPS ;;
    --report) value=FILE ;;
    --samples) value=FILE ;;
    --seconds) value=N ;;
    --seed) value=N ;;
    --server | -s) value=URI ;;
    --shape | -x) value=NAME=SHAPE ;;
    --shape-set) value=N ;;
    --sort) value=BY ;;
    --state) value=FILE ;;
    --std) value=NUMBERS ;;
    --target) value=CHIP ;;
    --top | -t) value=N ;;
    --type) value=TYPE ;;
    --wait) value=N ;;
    --warmup | -w) value=N ;;
    --way) value=NAME ;;
    --with) value=URI ;;
    --without) value=PASS ;;
    --write-float) value=FILE ;;
    esac
}
# end

_rknnctl_command()
{
    local i
    command=
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        -s | --server) ((i++)) ;;
        -*) ;;
        : | =) ;;
        *)
            if [[ " $_rknnctl_schemes " == *" ${COMP_WORDS[i]}: "* ]]; then
                :
            elif [[ " ${_rknnctl_commands[*]} " == *" ${COMP_WORDS[i]} "* ]]; then
                command=${COMP_WORDS[i]}
                return
            fi
            ;;
        esac
    done
}

_rknnctl()
{
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command options value
    COMPREPLY=()
    _rknnctl_value "$before"
    case $value in
    FILE | MODEL | DIR) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
    URI) mapfile -t COMPREPLY < <(compgen -W "$_rknnctl_schemes" -- "$word"); return ;;
    LAYOUT) mapfile -t COMPREPLY < <(compgen -W "nhwc nchw" -- "$word"); return ;;
    CORES) mapfile -t COMPREPLY < <(compgen -W "auto all 0 1 2 0_1 0_1_2" -- "$word"); return ;;
    ?*) return ;;
    esac
    _rknnctl_command
    _rknnctl_options "${command:-global}"
    if [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
    elif [[ -z $command || $command == help ]]; then
        mapfile -t COMPREPLY < <(compgen -W "${_rknnctl_commands[*]}" -- "$word")
    elif [[ " ${_rknnctl_with_files[*]} " == *" $command "* ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
}

complete -o filenames -F _rknnctl rknnctl
