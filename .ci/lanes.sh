# Shared by .ci/run and .ci/full: a scratch folder, environments in it, lanes that run in parallel, and the
# sections that both have.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
declare -A lanes=()
trap 'for pid in "${!lanes[@]}"; do kill -- "-$pid" 2>/dev/null || true; done; rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1 MPLBACKEND=Agg PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

step() { printf '== %s (%ss)\n' "$1" "$SECONDS"; }

install() { # NAME, then arguments of pip; tried twice, since a registry may not respond
    local pip=("$work/$1/bin/pip" install -qq --no-compile) # most of torch is never imported
    "${pip[@]}" "${@:2}" || "${pip[@]}" "${@:2}"
}

torch() { # one large copy, which the environments share
    python3 -m venv "$work/torch"
    install torch torch==2.13.0
}

environment() { # NAME, then what pip installs next to torch
    python3 -m venv "$work/$1"
    echo "$work"/torch/lib/python3*/site-packages >"$(echo "$work/$1"/lib/python3*/site-packages)/torch.pth"
    [ $# -eq 1 ] || install "$1" -c .ci/constraints.txt "${@:2}"
}

lint() { # imports are read, not run, so neither torch nor guardband is installed
    python3 -m venv "$work/lint"
    install lint -c .ci/constraints.txt ruff import-linter
    "$work/lint/bin/ruff" check .
    "$work/lint/bin/ruff" format --check .
    PYTHONPATH=src "$work/lint/bin/lint-imports"
    python3 tools/prose.py --check
}

core_packages() { # no torch, and nothing that brings it
    python3 -m venv "$work/core"
    install core -c .ci/constraints.txt -e ".[test-core]"
}

core() { # the default tier of all tests but those of pinn, lab and of the repository itself, without torch
    export PATH="$work/core/bin:$PATH"
    if python -c "import torch" 2>/dev/null; then
        echo "== torch can be imported here, so these tests show nothing"
        return 1
    fi
    python -m pytest -q -p no:cacheprovider --ignore=src/guardband/{pinn,lab} --ignore=tests/laws --durations=10 \
        --ignore=tests/test_{claims,coming_from,docstrings,gallery,messages,migrating,mutants,prose,regenerate,release,results,site,workflows}.py |
        tee "$work/core.txt"
    # A test that needs torch is skipped, so a core that needs it would otherwise pass.
    [ "$(grep -oE '[0-9]+ passed' "$work/core.txt" | grep -oE '[0-9]+')" -ge 3000 ] || {
        echo "== fewer than 3000 tests passed without torch"
        return 1
    }
}

types() {
    pyright
    pyright --verifytypes guardband --ignoreexternal
}

site() {
    mkdocs build --strict --site-dir "$work/site"
    python tools/docs/check.py "$work/site"
}

lane() { # a function, run in the background with a log and a process group of its own
    set -m
    (
        SECONDS=0
        "$1"
        step "$1, alone"
    ) </dev/null >"$work/$1.log" 2>&1 &
    set +m
    lanes[$!]=$1
}

join() { # wait for all lanes; the first that fails shows its log and ends the others
    local pid name
    while [ ${#lanes[@]} -gt 0 ]; do
        sleep 0.5
        for pid in "${!lanes[@]}"; do
            if kill -0 "$pid" 2>/dev/null; then continue; fi
            name=${lanes[$pid]}
            unset "lanes[$pid]"
            if ! wait "$pid"; then
                cat "$work/$name.log"
                step "$name FAILED"
                exit 1
            fi
            grep -E '^(==|TOTAL|Contracts:) |[0-9] passed' "$work/$name.log" || true
        done
    done
}
